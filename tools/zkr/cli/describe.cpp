#include "tools/zkr/cli/describe.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

namespace zkr {
namespace {

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription description;
  description.help = option.get_description();
  description.variable = option.get_envname();
  description.positional = option.get_positional();
  description.required = option.get_required();
  if (description.positional) {
    description.names = {option.get_name(true)};
    description.several = option.get_items_expected_max() > 1;
    return description;
  }
  for (const std::string& name : option.get_snames())
    description.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    description.names.push_back("--" + name);
  if (option.get_items_expected_max() > 0) {
    description.value = option.get_type_name();
    description.value.erase(std::min(description.value.find(':'), description.value.size()));  // What values are taken.
  }
  return description;
}

// --- Completions --------------------------------------------------------------------------------------------------

using Visitor = std::function<void(const std::string& path, const CommandDescription& command)>;

// "queue push", and so on.
void visit(const CommandDescription& command, const std::string& path, const Visitor& visitor) {
  visitor(path, command);
  for (const CommandDescription& below : command.commands)
    visit(below, path.empty() ? below.name : path + " " + below.name, visitor);
}

void add_options(const CommandDescription& command, std::set<std::string>& words) {
  for (const OptionDescription& option : command.options) {
    if (!option.positional) words.insert(option.names.begin(), option.names.end());
  }
}

// What may stand behind the command: options of the program as well.
std::string words_for(const CommandDescription& program, const CommandDescription& command) {
  std::set<std::string> words;
  add_options(program, words);
  add_options(command, words);
  for (const CommandDescription& below : command.commands)
    words.insert(below.name);
  return fmt::format("{}", fmt::join(words, " "));
}

// clang-format off
// Names of nodes are other clients' words: no shell may ever take one for its own (compgen -W, for one, executes what
// stands in it). bash divides words at ":", "=" and "@" as well, so what no blank divides is put together again.
constexpr std::string_view bash_head = R"sh(# Completions of zkr, made by: zkr completion bash
_zkr_plain() {  # The word without its quotes.
  local quote= letter i
  plain=
  for ((i = 0; i < ${#1}; ++i)); do
    letter=${1:i:1}
    case $quote$letter in
      \\ | \"\\) ((++i)) && plain+=${1:i:1} ;;
      \' | \") quote=$letter ;;
      \'\' | \"\") quote= ;;
      *) plain+=$letter ;;
    esac
  done
}
_zkr_place() {  # The word behind an option that says where the servers are.
  [[ $place_option ]] && place+=("$place_option" "$plain") && place_option= && return
  case $plain in
    --server | --profile | --prefix) place_option=$plain ;;
    --server=* | --profile=* | --prefix=*) place+=("$plain") ;;
  esac
}
_zkr_nodes() {  # As shells want them typed.
  local before=$1 parent=${plain%/*} name typed
  while IFS= read -r name; do
    [[ $name == "${plain##*/}"* ]] || continue
    printf -v typed %q "$parent/$name"
    [[ $typed == "$before"* ]] || continue  # What was typed quotes in another way.
    COMPREPLY+=("${typed#"$before"}")
  done < <(timeout 0.3 zkr "${place[@]}" --connect-timeout 300ms ls "${parent:-/}" 2>/dev/null)
}
_zkr() {
  local words=() line=$COMP_LINE path= place=() place_option= blanks word plain i
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]} blanks=${line%%[![:blank:]]*}
    line=${line#"$blanks"} line=${line#"$word"}
    if [[ $i == 0 || $blanks ]]; then words+=("$word"); else words[-1]+=$word; fi
  done
  local current=${words[-1]} last=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  for word in "${words[@]:1:${#words[@]} - 2}"; do
    [[ $word == -- ]] && { compopt -o default; return; }
    _zkr_plain "$word"
    _zkr_place
    [[ $word != -* && " $(_zkr_words "$path") " == *" $word "* ]] && path="${path:+$path }$word"
  done
  if [[ $current == /* ]]; then
    [[ $current == *[\'\"]* ]] && return
    _zkr_plain "$current"
    [[ $last == [:=@]* ]] && last=
    _zkr_nodes "${current%"$last"}"
    compopt -o nospace 2>/dev/null
  else
    mapfile -t COMPREPLY < <(compgen -W "$(_zkr_words "$path")" -- "$current")
  fi
}
)sh";
constexpr std::string_view bash_tail = "complete -F _zkr zkr\n";

constexpr std::string_view zsh_head = R"sh(#compdef zkr
# Completions of zkr, made by: zkr completion zsh
_zkr() {
  local command= word
  local -a place names
  local -i i
  for ((i = 2; i < CURRENT; ++i)); do
    word=$words[i]
    if [[ $word == -- ]]; then
      shift $i words
      ((CURRENT -= i))
      _normal
      return
    fi
    case $word in
      (--server | --profile | --prefix) place+=($word "${(Q)words[i + 1]}") ;;
      (--server=* | --profile=* | --prefix=*) place+=("${(Q)word}") ;;
    esac
    [[ $word != -* && " $(_zkr_words "$command") " == *" $word "* ]] && command="${command:+$command }$word"
  done
  if [[ $PREFIX == /* ]]; then
    local parent=${${(Q)PREFIX}%/*}
    names=(${(f)"$(timeout 0.3 zkr "$place[@]" --connect-timeout 300ms ls "${parent:-/}" 2>/dev/null)"})
    compadd -S '' -p "$parent/" -a names
  else
    names=($(_zkr_words "$command"))
    compadd -a names
  fi
}
)sh";
// zsh runs the file itself as the function, at the first completion, if it has found it by its name.
constexpr std::string_view zsh_tail = R"sh(if [[ $funcstack[1] == _zkr ]]; then _zkr "$@"; else compdef _zkr zkr; fi
)sh";
// clang-format on

// A function for the shell that writes the words which may stand behind a command.
std::string function_of_words(const CommandDescription& program) {
  std::string text = "_zkr_words() {\n  case $1 in\n";
  visit(program, "", [&](const std::string& path, const CommandDescription& command) {
    text += fmt::format("    '{}') echo '{}' ;;\n", path, words_for(program, command));
  });
  return text + "  esac\n}\n";
}

std::string bash_completion(const CommandDescription& program) {
  return fmt::format("{}{}{}", bash_head, function_of_words(program), bash_tail);
}

std::string zsh_completion(const CommandDescription& program) {
  return fmt::format("{}{}{}", zsh_head, function_of_words(program), zsh_tail);
}

// Within single quotes.
std::string fish_quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return "'" + quoted + "'";
}

std::string fish_condition(const std::string& path) {
  if (path.empty()) return "__fish_use_subcommand";
  std::string condition;
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    condition += fmt::format("{}__fish_seen_subcommand_from {}", condition.empty() ? "" : "; and ", word);
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return condition;
}

std::string fish_option(const OptionDescription& option) {
  std::string text;
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.value.empty()) text += " -r";
  return text;
}

// What stands in the output of a command is a word for fish, whatever its letters.
constexpr std::string_view fish_nodes =
    R"sh(complete -c zkr -f -n 'string match -q "/*" -- (commandline -ct)' -a '(__zkr_nodes)'
function __zkr_nodes
  set -l place
  set -l place_option
  for word in (commandline -opc)
    if set -q place_option[1]
      set -a place $place_option $word
      set place_option
    else if contains -- $word --server --profile --prefix
      set place_option $word
    else if string match -qr '^--(server|profile|prefix)=' -- $word
      set -a place $word
    end
  end
  set -l parent (string unescape -- (commandline -ct) | string replace -r '/[^/]*$' '')
  set -l node $parent
  test -n "$node"; or set node /
  for name in (timeout 0.3 zkr $place --connect-timeout 300ms ls $node 2>/dev/null)
    echo "$parent/$name"
  end
end
)sh";

std::string fish_completion(const CommandDescription& program) {
  std::string text = "# Completions of zkr, made by: zkr completion fish\n";
  visit(program, "", [&](const std::string& path, const CommandDescription& command) {
    const std::string condition = fmt::format("complete -c zkr -n '{}'", fish_condition(path));
    for (const CommandDescription& below : command.commands)
      text += fmt::format("{} -f -a {} -d {}\n", condition, below.name, fish_quoted(below.help));
    for (const OptionDescription& option : command.options) {
      if (option.positional) continue;
      // What all commands have may stand anywhere.
      const std::string where = path.empty() ? "complete -c zkr" : condition;
      text += fmt::format("{}{} -d {}\n", where, fish_option(option), fish_quoted(option.help));
    }
  });
  text += fish_nodes;
  return text;
}

// --- The manual page ----------------------------------------------------------------------------------------------

std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '-') escaped += '\\';
    escaped += c;
  }
  if (escaped.starts_with('.') || escaped.starts_with('\'')) escaped.insert(0, "\\&");
  return escaped;
}

std::string roff_option(const OptionDescription& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names)
    names.push_back("\\fB" + roff(name) + "\\fR");
  std::string text = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (!option.value.empty()) text += " \\fI" + roff(option.value) + "\\fR";
  text += "\n" + roff(option.help) + ".\n";
  if (!option.variable.empty()) text += "Environment: \\fB" + roff(option.variable) + "\\fR.\n";
  return text;
}

std::string synopsis(const std::string& path, const CommandDescription& command) {
  std::string text = "\\fBzkr " + roff(path) + "\\fR";
  const bool has_options = std::any_of(command.options.begin(), command.options.end(),
                                       [](const OptionDescription& one) { return !one.positional; });
  if (has_options) text += " [\\fIoption\\fR ...]";
  for (const OptionDescription& option : command.options) {
    if (!option.positional) continue;
    const std::string name = "\\fI" + roff(option.names.front()) + "\\fR" + (option.several ? " ..." : "");
    text += option.required ? " " + name : " [" + name + "]";
  }
  return text;
}

// What a reader looks for first is on the first page: what happens to the command. Each command's words come below.
constexpr std::string_view manual_description = R"man(.SH NAME
zkr \- run commands under locks in ZooKeeper, and look at what is there
.SH SYNOPSIS
.nf
\fBzkr lock\fR [\fIoption\fR ...] \fIPATH\fR ... \fB\-\-\fR \fICOMMAND\fR [\fIARGUMENT\fR ...]
\fBzkr lead\fR [\fIoption\fR ...] \fIPATH\fR \fB\-\-\fR \fICOMMAND\fR [\fIARGUMENT\fR ...]
\fBzkr queue work\fR [\fIoption\fR ...] \fIPATH\fR \fB\-\-\fR \fICOMMAND\fR [\fIARGUMENT\fR ...]
\fBzkr barrier enter\fR [\fIoption\fR ...] \fIPATH\fR \fB\-\-\fR \fICOMMAND\fR [\fIARGUMENT\fR ...]
\fBzkr group join\fR [\fIoption\fR ...] \fIPATH\fR \fB\-\-\fR \fICOMMAND\fR [\fIARGUMENT\fR ...]
\fBzkr commit participate\fR [\fIoption\fR ...] \fIPATH\fR \fINAME\fR \fB\-\-\fR \fICOMMAND\fR [\fIARGUMENT\fR ...]
\fBzkr\fR \fICOMMAND\fR [\fIoption\fR ...] [\fIARGUMENT\fR ...]
.fi
.SH DESCRIPTION
.B zkr lock
and
.B zkr lead
run a command. Nothing that the command has started runs once the lock can belong to another client, and the lock is given
back only when nothing of it runs any more.
.B zkr
ends as the command ends: with its exit code, or of its signal.
.PP
If servers stop to confirm the lease, because of an outage or a broken network, the command gets TERM, and KILL after
.BR \-\-grace .
With a session timeout of 30 seconds, an outage of up to 3.5 seconds costs nothing, TERM comes 8.5 seconds after the last
confirmation, and KILL after 16 seconds, before the lease ends. The exit code is 79 then. With
.B lead
the leadership is stood for again, unless
.B \-\-once
is given.
.PP
The command finds the fencing token in
.BR ZKR_TOKEN .
What the lock protects can refuse a writer with a lower token than it has seen: nothing else helps against a machine that
stood still for longer than the lease.
.PP
The other commands show who holds and who leads, read and change nodes, and find out what may go wrong. What they write to
standard output is data alone.
)man";

constexpr std::string_view manual_tail = R"man(.SH EXIT STATUS
That of the command which was run, or of the handler with \fB\-\-once\fR. Of \fBzkr\fR itself:
.TP
64
The words of the call make no sense.
.TP
65
What was read has another form; another kind of lock is in use at the path.
.TP
66
There is no such node, or nobody leads.
.TP
69
No server answers.
.TP
70, 71
A bug; a system call failed.
.TP
73
The node exists, or has another version, or has children.
.TP
74
In doubt: the change may have been made or not.
.TP
75
Others hold it; no item; the time was over; the transaction was aborted.
.TP
77
The server refuses access.
.TP
78
The configuration is missing or wrong.
.TP
79, 80, 81
The lease was lost; another client asked for it; it was held too long, or \fB\-\-watchdog\fR was over.
.TP
126, 127
The command cannot be run; it is not there.
.PP
\fBzkr doctor\fR: 0, 1 for warnings, 2 for failures.
.SH ENVIRONMENT
.TP
.B ZKRECIPES_SERVER
The servers, where no option says them. It wins over the profile.
.TP
.B ZKR_PROFILE
The profile, where no option says it.
.TP
.B ZKR_AUTH_FILE
The file with credentials, where \fB\-\-auth\-fd\fR gives none. It wins over the profile.
.PP
The command that is run finds these:
.TP
.BR ZKR_PATH ", " ZKR_NODE
What is held, and the nodes that stand for it; one a line.
.TP
.B ZKR_MODE
One of exclusive, shared, slot, leader, member, joined, claim.
.TP
.B ZKR_TOKEN
The fencing token.
.TP
.B ZKR_SESSION
The session's id.
.TP
.BR ZKR_ID ", " ZKR_IDS
The mark of this run, and of those that it is part of.
.TP
.B ZKR_HELD
All that callers hold.
.TP
.B ZKR_SOCKET
Where \fBzkr held\fR and its like ask.
.TP
.B ZKR_LOST_FD
The descriptor of \fB\-\-lost\-fd\fR, which is at its end when the lease is lost.
.TP
.BR ZKR_ITEM ", " ZKR_DELIVERIES ", " ZKR_PRIORITY
Of \fBqueue work\fR: the item, how often it was claimed, and its priority.
.SH FILES
.TP
.I ~/.config/zkr/config.toml
Profiles: where the servers are, and who the client is.
.TP
.I /etc/zkrecipes/zkr.toml
The same for all users.
.SH SEE ALSO
.BR zkrecipes\-guardian (1),
.BR flock (1)
)man";

}  // namespace

CommandDescription describe(const CLI::App& app) {
  CommandDescription description;
  description.name = app.get_name();
  description.help = app.get_description();
  for (const CLI::Option* option : app.get_options({})) {
    if (!option->get_group().empty()) description.options.push_back(describe_option(*option));
  }
  for (const CLI::App* below : app.get_subcommands({})) {
    if (!below->get_group().empty()) description.commands.push_back(describe(*below));
  }
  return description;
}

std::string completion(const CommandDescription& program, const std::string& shell) {
  if (shell == "fish") return fish_completion(program);
  return shell == "zsh" ? zsh_completion(program) : bash_completion(program);
}

std::string manual_page(const CommandDescription& program, const std::string& version) {
  std::string text = fmt::format(".TH ZKR 1 \"\" \"zkrecipes {}\" \"User Commands\"\n", version);
  text += manual_description;
  text += ".SH OPTIONS OF ALL COMMANDS\n";
  for (const OptionDescription& option : program.options)
    text += roff_option(option);
  text += ".SH COMMANDS\n";
  visit(program, "", [&](const std::string& path, const CommandDescription& command) {
    if (path.empty() || !command.commands.empty()) return;
    text += ".SS " + roff(path) + "\n" + synopsis(path, command) + "\n.PP\n" + roff(command.help) + ".\n";
    for (const OptionDescription& option : command.options) {
      if (option.names.front() != "-h") text += roff_option(option);
    }
  });
  return text.append(manual_tail);
}

}  // namespace zkr
