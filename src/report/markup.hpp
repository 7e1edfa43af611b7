// Other people's text in our documents: a name from a configuration must never become markup.
#pragma once

#include <string>

namespace mrb {

// For XML and HTML, in text and in attributes. Characters that XML forbids become '?'.
std::string xml_text(const std::string&);

// For a cell of a Markdown table: one line, with no markup in it.
std::string markdown_cell(const std::string&);

// For a message of a GitHub workflow command.
std::string workflow_text(const std::string&);

// For a field of CSV (RFC 4180). A field that a spreadsheet would run as a formula gets a quote in front.
std::string csv_field(const std::string&);

}  // namespace mrb
