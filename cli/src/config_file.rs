//! A file with options, for whoever does not want them on the command line.
//!
//! A key is the long name of an option. At the top of the file it counts for every command that has the option; in a table it counts for
//! the command that the table is named after. What the command line and the environment say comes first.

use std::{
    ffi::OsString,
    fmt::Display,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, ArgMatches, Command, error::ErrorKind};
use toml::{Table, Value};

use crate::usage::Usage;

/// The options about the file itself.
const OWN: [&str; 2] = ["config", "print-config"];

/// The command, with what the file says that its arguments or the environment name.
pub(crate) fn applied(command: Command, arguments: &[OsString]) -> Result<Command, Usage> {
    let Some(path) = named(&command, arguments) else { return Ok(command) };
    let table = read(&path).map_err(|why| wrong(&path, why))?;
    with_options(command, &table).map_err(|why| wrong(&path, why))
}

/// The file that the arguments or the environment name, if the command that is called reads one.
fn named(command: &Command, arguments: &[OsString]) -> Option<PathBuf> {
    // Whatever is wrong with the arguments is said when they are read for good.
    let matches = command.clone().ignore_errors(true).try_get_matches_from(arguments).ok()?;
    // What this program starts by itself is told everything by whom starts it.
    let is_hidden = |name| command.find_subcommand(name).is_some_and(Command::is_hide_set);
    if matches.subcommand_name().is_some_and(is_hidden) {
        return None;
    }
    matches.get_one::<PathBuf>("config").cloned()
}

fn wrong(path: &Path, why: impl Display) -> Usage {
    Usage(format!("--config {}: {why}", path.display()))
}

/// What is wrong with a value of the file, if the arguments were refused for it: without the file, the same is not wrong. `command` is
/// the one without it.
pub(crate) fn wrong_value(error: &clap::Error, command: Command, arguments: &[OsString]) -> Option<Usage> {
    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return None;
    }
    let path = named(&command, arguments)?;
    let said = error.to_string();
    if command.try_get_matches_from(arguments).is_err_and(|without| without.to_string() == said) {
        return None;
    }
    // How to get help with what is typed is of no use here.
    let why = said.split("\n\n").next().unwrap_or_default();
    Some(wrong(&path, why.trim_start_matches("error: ")))
}

fn read(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("it cannot be read: {error}"))?;
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        format!("it is no TOML: line {line}: {}", error.message())
    })
}

fn with_options(mut command: Command, table: &Table) -> Result<Command, String> {
    // Tables last: what is said of one command takes the place of what is said of all.
    let (of_one, of_all): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_table());
    for (name, value) in of_all {
        let names: Vec<_> = command.get_subcommands().map(|of| of.get_name().to_owned()).collect();
        let having = names.iter().filter(|of| has(&command, of, name)).collect::<Vec<_>>();
        if having.is_empty() {
            return Err(format!("no command has an option --{name}"));
        }
        for of in having {
            command = with_option(command, of, name, value)?;
        }
    }
    for (of, options) in of_one {
        if command.find_subcommand(of).is_none() {
            return Err(format!("there is no command {of}"));
        }
        for (name, value) in options.as_table().into_iter().flatten() {
            if !has(&command, of, name) {
                return Err(format!("{of} has no option --{name}"));
            }
            command = with_option(command, of, name, value)?;
        }
    }
    Ok(command)
}

fn option<'a>(command: &'a Command, of: &str, name: &str) -> Option<&'a Arg> {
    let mut arguments = command.find_subcommand(of)?.get_arguments();
    arguments.find(|argument| argument.get_long() == Some(name) && !OWN.contains(&name))
}

fn has(command: &Command, of: &str, name: &str) -> bool {
    option(command, of, name).is_some()
}

fn with_option(command: Command, of: &str, name: &str, value: &Value) -> Result<Command, String> {
    let found = option(&command, of, name).map(|option| (option.get_id().clone(), takes_several(option)));
    let Some((id, takes_several)) = found else { return Ok(command) };
    let values = match value {
        Value::Array(values) => values.iter().map(text).collect::<Option<Vec<_>>>(),
        value => text(value).map(|value| vec![value]),
    };
    let values = values
        .ok_or_else(|| format!("{name} is neither a text, a number, a truth value nor a list of them"))?;
    if value.is_array() && !takes_several {
        return Err(format!("{of} takes one --{name}, and no list"));
    }
    Ok(command
        .mut_subcommand(of, |of| of.mut_arg(id, |argument| argument.required(false).default_values(values))))
}

/// Whether an option may be given several times, or with several values.
fn takes_several(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Append)
        || option.get_num_args().is_some_and(|values| values.max_values() > 1)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Some(value.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// What holds for the command that was called, as such a file.
pub(crate) fn in_force(command: &Command, matches: &ArgMatches) -> String {
    let mut options = Table::new();
    let Some((name, of)) = matches.subcommand() else { return String::new() };
    let arguments = command.find_subcommand(name).into_iter().flat_map(Command::get_arguments);
    for argument in arguments {
        let (Some(long), id) = (argument.get_long(), argument.get_id().as_str()) else { continue };
        if OWN.contains(&long) {
            continue;
        }
        if matches!(argument.get_action(), ArgAction::SetTrue) {
            options.insert(long.to_owned(), of.get_flag(id).into());
            continue;
        }
        let values = of.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy().into_owned());
        let values: Vec<_> = values.map(Value::String).collect();
        match (values.as_slice(), argument.get_action()) {
            ([], _) => {}
            ([value], ArgAction::Set) => _ = options.insert(long.to_owned(), value.clone()),
            _ => _ = options.insert(long.to_owned(), Value::Array(values)),
        }
    }
    Table::from_iter([(name.to_owned(), Value::Table(options))]).to_string()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn with(file: &str) -> Result<Command, String> {
        with_options(crate::Cli::command(), &file.parse().unwrap())
    }

    /// The values of an option of the command that is called so.
    fn values(file: &str, words: &[&str], option: &str) -> Vec<String> {
        let matches = with(file).unwrap().try_get_matches_from(words).unwrap();
        let (_, of) = matches.subcommand().unwrap();
        let values = of.get_raw(option).into_iter().flatten();
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    const FILE: &str = r#"
        store = "sqlite:/x.db"
        lease = "7s"
        [node]
        name = "a"
        registry = ["one", "two"]
        priority = 3
        lease-anyway = true
        [run]
        lease = "9s"
    "#;

    #[test]
    fn an_option_of_the_file_counts_where_nothing_else_is_said_and_one_of_a_command_before_one_of_all() {
        let node = |words: &[&str], option| values(FILE, &[&["callsign", "node"], words].concat(), option);
        assert_eq!(node(&[], "store"), ["sqlite:/x.db"]);
        assert_eq!(node(&[], "name"), ["a"]);
        assert_eq!(node(&[], "registry"), ["one", "two"]);
        assert_eq!(node(&[], "priority"), ["3"]);
        assert_eq!(node(&[], "lease"), ["7s"]);
        assert_eq!(node(&["--lease", "8s", "--registry", "r"], "lease"), ["8s"]);
        assert_eq!(node(&["--lease", "8s", "--registry", "r"], "registry"), ["r"]);
        let run = ["callsign", "run", "--singleton", "x", "--", "true"];
        assert_eq!(values(FILE, &run, "lease"), ["9s"]);
        assert_eq!(values(FILE, &["callsign", "ls"], "store"), ["sqlite:/x.db"]);
        let matches = with(FILE).unwrap().try_get_matches_from(["callsign", "node"]).unwrap();
        assert!(matches.subcommand().unwrap().1.get_flag("lease_anyway"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (file, why) in [
            ("stroe = 'x'", "no command has an option --stroe"),
            ("config = 'x'", "no command has an option --config"),
            ("[nod]\nname = 'a'", "there is no command nod"),
            ("[node]\nsingleton = 'a'", "node has no option --singleton"),
            (
                "[node]\nname = 2026-11-26",
                "name is neither a text, a number, a truth value nor a list of them",
            ),
            ("[node]\nname = [['a']]", "name is neither a text, a number, a truth value nor a list of them"),
            ("[node]\nname = ['x', 'y']", "node takes one --name, and no list"),
            ("[ls]\njson = [true]", "ls takes one --json, and no list"),
            ("cluster = ['one', 'two']", "node takes one --cluster, and no list"),
        ] {
            assert_eq!(with(file).err().as_deref(), Some(why), "{file}");
        }
        let wrong = with("[node]\nname = 'a'\nstore = 'memory:'\nlease = 'soon'").unwrap();
        let error = wrong.try_get_matches_from(["callsign", "node"]).unwrap_err().to_string();
        assert!(error.contains("invalid value 'soon' for '--lease"), "{error}");
    }

    #[test]
    fn the_file_that_is_named_is_read_and_what_is_wrong_with_it_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("callsign.toml");
        let words = ["callsign", "--config", path.to_str().unwrap(), "node"].map(OsString::from);
        let applied = || applied(crate::Cli::command(), &words);
        let missing = applied().unwrap_err().to_string();
        assert!(
            missing.starts_with(&format!("--config {}: it cannot be read: ", path.display())),
            "{missing}"
        );
        std::fs::write(&path, "lease = '7s'\nstore =\n").unwrap();
        let wrong = applied().unwrap_err().to_string();
        assert!(wrong.contains("it is no TOML: line 2: "), "{wrong}");
        std::fs::write(&path, FILE).unwrap();
        let matches = applied().unwrap().try_get_matches_from(&words).unwrap();
        assert_eq!(matches.subcommand().unwrap().1.get_one::<String>("name").unwrap(), "a");
        // A guard is started though the file is gone or wrong.
        let guard = ["callsign", "--config", "/nowhere", "guard"].map(OsString::from);
        assert!(super::applied(crate::Cli::command(), &guard).is_ok());
        // Nothing is read where no file is named, or nothing can be.
        for words in [&["callsign", "ls"][..], &["callsign", "--nonsense"], &["callsign", "--help"]] {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            assert!(super::applied(crate::Cli::command(), &words).is_ok());
        }
    }

    #[test]
    fn what_is_wrong_with_a_value_of_the_file_is_said_with_the_file_and_what_is_typed_without_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("callsign.toml");
        let named = path.to_str().unwrap();
        let text = "[node]\nname = 'a'\nstore = 'memory:'\nlease = 5\non-outage = 'hope'";
        std::fs::write(&path, text).unwrap();
        let said = |more: &[&str]| {
            let words = [&["callsign", "--config", named, "node"], more].concat();
            let words: Vec<_> = words.into_iter().map(OsString::from).collect();
            let command = applied(crate::Cli::command(), &words).unwrap();
            let error = command.try_get_matches_from(&words).unwrap_err();
            wrong_value(&error, crate::Cli::command(), &words).map(|usage| usage.to_string())
        };
        let lease = said(&["--on-outage=wait"]).unwrap();
        let expected = format!("--config {named}: invalid value '5' for '--lease <LEASE>': ");
        assert!(lease.starts_with(&expected) && !lease.contains("--help"), "{lease}");
        let outage = said(&["--lease=7s"]).unwrap();
        let expected = format!("--config {named}: invalid value 'hope' for '--on-outage <ON_OUTAGE>'");
        assert!(outage.starts_with(&expected) && outage.contains("wait, fail"), "{outage}");
        for typed in [&["--lease=soon"][..], &["--priority=high"], &["--lease=7s", "--on-outage=hope"]] {
            assert_eq!(said(typed), None, "{typed:?}");
        }
    }

    #[test]
    fn what_holds_is_printed_as_a_file_that_says_the_same() {
        let command = with(FILE).unwrap();
        let words = ["callsign", "node", "--lease", "8s", "--admin", "127.0.0.1:1"];
        let printed = in_force(&command, &command.clone().try_get_matches_from(words).unwrap());
        let node = ["callsign", "node"];
        for (option, expected) in [
            ("lease", &["8s"][..]),
            ("admin", &["127.0.0.1:1"]),
            ("registry", &["one", "two"]),
            ("store", &["sqlite:/x.db"]),
            ("cluster", &["default"]),
        ] {
            assert_eq!(values(&printed, &node, option), expected, "{printed}");
        }
        assert!(printed.starts_with("[node]\n") && printed.contains("lease-anyway = true"), "{printed}");
        assert!(!printed.contains("config") && !printed.contains("secret"), "{printed}");
        let again = with(&printed).unwrap();
        let matches = again.clone().try_get_matches_from(node).unwrap();
        assert_eq!(in_force(&again, &matches), printed);
    }

    #[test]
    fn what_holds_is_printed_without_the_file_and_a_list_of_one_stays_a_list() {
        let mut command = with("[node]\nname = 'a'\nstore = 'memory:'\nregistry = ['r']").unwrap();
        let words = ["callsign", "--config", "/x.toml", "--print-config", "node"];
        // As `main` does it: from then on the command knows the options of all commands as its own.
        let matches = command.try_get_matches_from_mut(words).unwrap();
        let printed = in_force(&command, &matches);
        assert!(!printed.contains("config") && !printed.contains("help"), "{printed}");
        let table: Table = printed.parse().unwrap();
        let node = table["node"].as_table().unwrap();
        assert_eq!(node["name"].as_str(), Some("a"), "{printed}");
        assert!(node["registry"].as_array().is_some_and(|registries| registries.len() == 1), "{printed}");
    }
}
