#include "manifest/mpirun_line.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace mrb {

namespace {

struct Word {
  std::string text;
  const YamlNode* where = nullptr;
  bool ends_command = false;  // a line's end, ; & or | behind it
};

// A shell script as words, roughly: quotes are taken off, nothing is expanded.
void split_script(const YamlNode& script, std::vector<Word>& words) {
  std::string word;
  char quote = 0;
  bool is_word = false, is_comment = false;
  const auto end_word = [&](bool ends_command) {
    if (is_word) words.push_back({word, &script, false});
    if (ends_command && !words.empty()) words.back().ends_command = true;
    word.clear();
    is_word = false;
  };
  const std::string& text = script.text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_comment) {
      is_comment = c != '\n';
      if (is_comment) continue;
    }
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      is_word = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      if (text[++i] != '\n') {
        word += text[i];
        is_word = true;
      } else {
        end_word(false);
      }
    } else if (c == '#' && !is_word) {
      is_comment = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word(false);
    } else if (c == '\n' || c == ';' || c == '|' || c == '&') {
      end_word(true);
    } else {
      word += c;
      is_word = true;
    }
  }
  end_word(true);
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_shell(const std::string& word) {
  const std::string name = base_name(word);
  return name == "sh" || name == "bash" || name == "dash" || name == "zsh";
}

// "-c", "-ec", "-xeuo pipefail -c": a short option with c in it.
bool takes_script(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '-' && word.find('c') != std::string::npos;
}

std::vector<Word> words_of(const YamlNode& container) {
  std::vector<const YamlNode*> given;
  for (const char* key : {"command", "args"}) {
    for (const YamlNode& item : container[key].items) given.push_back(&item);
  }
  std::vector<Word> words;
  const bool has_shell = !given.empty() && is_shell(given.front()->text);
  bool is_script_next = false, had_script = false;
  for (const YamlNode* item : given) {
    if (has_shell && is_script_next && !had_script) {
      split_script(*item, words);
      had_script = true;
    } else {
      is_script_next = is_script_next || takes_script(item->text);
      words.push_back({item->text, item, false});
    }
  }
  return words;
}

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// ppr:8:node
std::optional<int> per_node_of_map(const std::string& text) {
  if (!text.starts_with("ppr:")) return std::nullopt;
  const std::size_t colon = text.find(':', 4);
  if (colon == std::string::npos || !text.substr(colon + 1).starts_with("node")) return std::nullopt;
  return number(text.substr(4, colon - 4));
}

// Options of Open MPI 4 and 5, MPICH's hydra and Intel MPI, without leading dashes, with how many words follow.
int words_after(const std::string& option) {
  static const std::map<std::string, int> counts = {{"np", 1},
                                                    {"n", 1},
                                                    {"c", 1},
                                                    {"N", 1},
                                                    {"npernode", 1},
                                                    {"ppn", 1},
                                                    {"perhost", 1},
                                                    {"x", 1},
                                                    {"map-by", 1},
                                                    {"rank-by", 1},
                                                    {"bind-to", 1},
                                                    {"mca", 2},
                                                    {"gmca", 2},
                                                    {"prtemca", 2},
                                                    {"pmixmca", 2},
                                                    {"omca", 2},
                                                    {"host", 1},
                                                    {"H", 1},
                                                    {"hosts", 1},
                                                    {"hostfile", 1},
                                                    {"machinefile", 1},
                                                    {"f", 1},
                                                    {"default-hostfile", 1},
                                                    {"prefix", 1},
                                                    {"wdir", 1},
                                                    {"wd", 1},
                                                    {"path", 1},
                                                    {"output-filename", 1},
                                                    {"output", 1},
                                                    {"timeout", 1},
                                                    {"stdin", 1},
                                                    {"env", 2},
                                                    {"genv", 2},
                                                    {"genvlist", 1},
                                                    {"envlist", 1},
                                                    {"launcher", 1},
                                                    {"iface", 1},
                                                    {"rankfile", 1},
                                                    {"rf", 1},
                                                    {"cpu-set", 1},
                                                    {"report-events", 1},
                                                    {"max-restarts", 1},
                                                    {"am", 1},
                                                    {"tune", 1},
                                                    {"personality", 1},
                                                    {"display", 1},
                                                    {"runtime-options", 1},
                                                    {"set-sid", 0},
                                                    {"npersocket", 1},
                                                    {"cpus-per-proc", 1},
                                                    {"cpus-per-rank", 1},
                                                    {"allow-run-as-root", 0},
                                                    {"tag-output", 0},
                                                    {"timestamp-output", 0},
                                                    {"oversubscribe", 0},
                                                    {"nooversubscribe", 0},
                                                    {"report-bindings", 0},
                                                    {"v", 0},
                                                    {"q", 0},
                                                    {"verbose", 0},
                                                    {"quiet", 0},
                                                    {"bynode", 0},
                                                    {"byslot", 0},
                                                    {"bind-to-core", 0},
                                                    {"bind-to-none", 0},
                                                    {"bycore", 0},
                                                    {"display-map", 0},
                                                    {"display-allocation", 0},
                                                    {"merge-stderr-to-stdout", 0},
                                                    {"debug-devel", 0},
                                                    {"d", 0},
                                                    {"enable-recovery", 0},
                                                    {"disable-recovery", 0},
                                                    {"leave-session-attached", 0},
                                                    {"noprefix", 0},
                                                    {"xterm", 1},
                                                    {"forward-signals", 1},
                                                    {"forward-signal", 1}};
  const auto found = counts.find(option);
  return found == counts.end() ? -1 : found->second;
}

MpirunLine parse(const std::vector<Word>& words, std::size_t at) {
  MpirunLine line{.where = words[at].where};
  while (!words[at].ends_command && ++at < words.size()) {
    const std::string& word = words[at].text;
    if (word.empty() || word[0] != '-') {
      line.program = word;
      break;
    }
    std::string option =
        word.substr(word.find_first_not_of('-') == std::string::npos ? 1 : word.find_first_not_of('-'));
    std::vector<std::string> values;
    if (const std::size_t equals = option.find('='); equals != std::string::npos) {  // --map-by=ppr:8:node
      values.push_back(option.substr(equals + 1));
      option.resize(equals);
    }
    const int count = words_after(option);
    if (count < 0) line.is_understood = false;
    if (values.empty()) {
      for (int i = 0; i < count && at + 1 < words.size() && !words[at].ends_command; ++i) {
        values.push_back(words[++at].text);
      }
    }
    const std::string value = values.empty() ? "" : values.front();
    if (option == "np" || option == "n" || option == "c") {
      line.ranks = number(value);
    } else if (option == "N" || option == "npernode" || option == "ppn" || option == "perhost") {
      line.ranks_per_node = number(value);
    } else if (option == "map-by") {
      if (const auto per_node = per_node_of_map(value)) line.ranks_per_node = per_node;
    } else if (option == "x") {
      const std::size_t equals = value.find('=');
      line.exported.emplace_back(value.substr(0, equals), equals == std::string::npos ? "" : value.substr(equals + 1));
    } else if (option == "allow-run-as-root") {
      line.allows_root = true;
    } else if (option == "am" || option == "tune" || value == "mca_base_env_list") {
      line.is_understood = false;  // variables may come from there
    }
  }
  return line;
}

}  // namespace

bool MpirunLine::exports(const std::string& name) const {
  return std::any_of(exported.begin(), exported.end(), [&](const auto& one) {
    const std::string& pattern = one.first;  // Open MPI takes `-x FI_*`
    return pattern == name || (pattern.ends_with("*") && name.starts_with(pattern.substr(0, pattern.size() - 1)));
  });
}

std::vector<MpirunLine> find_mpirun(const YamlNode& container) {
  const std::vector<Word> words = words_of(container);
  std::vector<MpirunLine> lines;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = base_name(words[i].text);
    // `command -v mpirun` and the like have no options behind it.
    const bool has_options = i + 1 < words.size() && !words[i].ends_command;
    if ((name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "mpiexec.hydra") && has_options) {
      lines.push_back(parse(words, i));
    }
  }
  return lines;
}

std::string command_text(const YamlNode& container) {
  std::string text;
  for (const char* key : {"command", "args"}) {
    for (const YamlNode& item : container[key].items) text += item.text + "\n";
  }
  return text;
}

}  // namespace mrb
