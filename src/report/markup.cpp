#include "report/markup.hpp"

#include <fmt/format.h>

#include <string_view>

namespace mrb {

std::string xml_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool is_forbidden = static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += is_forbidden ? '?' : c;
    }
  }
  return result;
}

std::string markdown_cell(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool is_line_end = c == '\n' || c == '\r';
    if (is_line_end) {
      result += ' ';
    } else if (c == '<') {
      result += "&lt;";
    } else {
      if (std::string_view("\\|`*_[]#").find(c) != std::string_view::npos) result += '\\';
      result += c;
    }
  }
  return result;
}

std::string workflow_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '%' || c == '\r' || c == '\n') {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result;
}

std::string csv_field(const std::string& text) {
  std::string safe = text;
  if (!text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos) safe = "'" + text;
  if (safe.find_first_of(",\"\r\n") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace mrb
