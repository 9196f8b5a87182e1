//! What README and the pages of `docs/` tell people to type.
//!
//! A command is a line of a code block (indented by four spaces, or fenced as `sh`) that begins with `cargo` or with one of
//! our programs. Behind `#` comes a remark, which may say how `callsign-docs` runs it:
//! - `(long; in CI with --seeds 6000)`: `callsign-docs --long` runs it as it stands, and without `--long` with these options;
//! - `(needs a Postgres server)`: only people run it;
//! - `(goes on)`: it has begun when it prints its first line, and runs until the other commands of its block have run;
//! - nothing: it runs as it stands, in at most 20 s.
//!
//! `export NAME=VALUE` holds for the commands behind it in its block, and the word `$NAME` in them is its value.
//!
//! Files below `/tmp` are files of a new folder then, so that a run finds nothing of the run before it.
//!
//! A line with a word in capitals (`URL`), with `[...]` or with `...` is a form. Nobody runs it, but it must be one that its
//! program takes.

use std::{fs, path::Path};

/// Our programs.
const PROGRAMS: [&str; 4] = ["callsign", "callsign-sim", "callsign-chaos", "callsign-soak"];

/// A line that people are told to type.
#[derive(Clone, Debug)]
pub struct Documented {
    /// The page, and the line on it.
    pub place: String,
    /// Where its block begins.
    pub block: String,
    /// What is before the command: variables of the environment.
    pub environment: Vec<(String, String)>,
    /// The command, word by word.
    pub words: Vec<String>,
    /// What is said of it.
    pub remark: String,
}

/// Every command of README and of `docs/`, in order. `workspace` is the folder that they are in.
pub fn documented(workspace: &Path) -> Vec<Documented> {
    let mut pages = vec![workspace.join("README.md")];
    let mut folders = vec![workspace.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    let mut all = Vec::new();
    for page in pages {
        let name = page.strip_prefix(workspace).unwrap().display().to_string();
        all.extend(on_page(&name, &fs::read_to_string(&page).unwrap()));
    }
    all
}

/// Has a program take every call of it that people are told to type; `take` says whether it does, or which it leaves out. Fails
/// unless it takes at least `least`.
pub fn assert_takes_what_is_documented(
    workspace: &str,
    program: &str,
    least: usize,
    take: impl Fn(&Documented, Vec<String>) -> Result<bool, String>,
) {
    let mut taken = 0;
    for command in documented(workspace.as_ref()) {
        for words in command.calls_of(program) {
            let all = std::iter::once(program.to_owned()).chain(words).collect();
            let is_taken = take(&command, all);
            taken += usize::from(is_taken.unwrap_or_else(|why| {
                panic!("{}: {}\n{why}", command.place, command.text());
            }));
        }
    }
    assert!(taken >= least, "README and docs tell of more commands than {taken}");
}

fn on_page(page: &str, text: &str) -> Vec<Documented> {
    let mut all = Vec::new();
    let mut fence: Option<bool> = None;
    let (mut block, mut exported) = (String::new(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        let place = format!("{page}:{}", at + 1);
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() {
                None
            } else {
                Some(matches!(language.trim(), "sh" | "bash" | "console"))
            };
            exported.clear();
            block = place;
            continue;
        }
        if fence.is_some_and(|is_shell| is_shell) || (fence.is_none() && line.starts_with("    ")) {
            let (command, remark) = line.split_once(" #").unwrap_or((line, ""));
            if let Some((name, value)) = command.strip_prefix("export ").and_then(|of| of.split_once('=')) {
                exported.push((name.to_owned(), value.trim().to_owned()));
            }
            for part in command.split([';']).flat_map(|part| part.split("&&")) {
                all.extend(command_of((&place, &block), &exported, part, remark.trim()));
            }
        }
    }
    all
}

fn command_of(
    (place, block): (&str, &str),
    exported: &[(String, String)],
    text: &str,
    remark: &str,
) -> Option<Documented> {
    let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let is_variable = |word: &String| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    };
    let set = words.iter().take_while(|word| is_variable(word)).count();
    let environment = words
        .drain(..set)
        .filter_map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
    let environment = exported.iter().cloned().chain(environment).collect();
    for word in &mut words {
        let of = |name: &str| exported.iter().find(|(exported, _)| exported == name);
        if let Some((_, value)) = word.strip_prefix('$').and_then(of) {
            word.clone_from(value);
        }
    }
    let first = words.first()?;
    (first == "cargo" || PROGRAMS.contains(&first.as_str())).then(|| Documented {
        place: place.to_owned(),
        block: block.to_owned(),
        environment,
        words,
        remark: remark.to_owned(),
    })
}

impl Documented {
    /// As it is typed.
    pub fn text(&self) -> String {
        self.words.join(" ")
    }

    /// What it needs that automation does not have.
    pub fn needs(&self) -> Option<&str> {
        let (_, rest) = self.remark.split_once("(needs ")?;
        rest.split_once(')').map(|(what, _)| what)
    }

    /// Whether it runs until the other commands of its block have run.
    pub fn goes_on(&self) -> bool {
        self.remark.contains("(goes on)")
    }

    /// The options that make it short, if it is long.
    pub fn shortened_by(&self) -> Option<Vec<String>> {
        let (_, rest) = self.remark.split_once("(long; in CI with ")?;
        let (options, _) = rest.split_once(')').unwrap();
        Some(options.split_whitespace().map(str::to_owned).collect())
    }

    /// Whether it says in general how the program is called, and is no command by itself.
    pub fn is_form(&self) -> bool {
        self.words.iter().any(|word| word.starts_with('[') || word == "..." || has_placeholder(word))
    }

    /// The command with the options that make it short: each replaces the one of its name, or comes last.
    pub fn shortened(&self) -> Option<Self> {
        let mut words = self.words.clone();
        let options = self.shortened_by()?;
        let mut rest = options.as_slice();
        while let [option, after @ ..] = rest {
            let value = after.first().filter(|word| !word.starts_with("--"));
            rest = if value.is_some() { &after[1..] } else { after };
            match (words.iter().position(|word| word == option), value) {
                (Some(at), Some(value)) => words[at + 1].clone_from(value),
                (Some(_), None) => {}
                (None, value) => words.extend(std::iter::once(option).chain(value).cloned()),
            }
        }
        Some(Self { words, ..self.clone() })
    }

    /// The command with its files below `/tmp` in `folder` instead.
    #[must_use]
    pub fn with_files_in(mut self, folder: &Path) -> Self {
        let folder = format!("{}/", folder.display());
        for word in self.words.iter_mut().chain(self.environment.iter_mut().map(|(_, value)| value)) {
            *word = word.replace("/tmp/", &folder);
        }
        self
    }

    /// What `program` is called with, if this is about it: once for each way to fill in the form.
    pub fn calls_of(&self, program: &str) -> Vec<Vec<String>> {
        let words = if self.words[0] == program {
            &self.words[1..]
        } else if self.cargo_runs() == Some(program) {
            let begin = self.words.iter().position(|word| word == "--").map_or(self.words.len(), |at| at + 1);
            &self.words[begin..]
        } else {
            return Vec::new();
        };
        filled_in(words)
    }

    /// Which of our programs `cargo run` starts.
    fn cargo_runs(&self) -> Option<&str> {
        let before = self.words.split(|word| word == "--").next()?;
        let [cargo, run, options @ ..] = before else { return None };
        if cargo != "cargo" || run != "run" || options.iter().any(|word| word == "--example") {
            return None;
        }
        let value = |of: &[&str]| {
            options.windows(2).find(|pair| of.contains(&pair[0].as_str())).map(|pair| pair[1].as_str())
        };
        let named = value(&["--bin"]).or(value(&["-p", "--package"]))?;
        PROGRAMS.into_iter().find(|program| *program == named)
    }
}

fn has_placeholder(word: &str) -> bool {
    word.split(|c: char| !(c.is_ascii_uppercase() || c == '-')).any(|part| {
        let is_whole = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_uppercase());
        is_whole(part) && !word.contains("$(") && (part.len() > 1 || word == part)
    })
}

/// The form with nothing that is optional, and once more for each part that is: with that part alone.
fn filled_in(words: &[String]) -> Vec<Vec<String>> {
    let text = words.join(" ");
    let (mut plain, mut options, mut depth) = (String::new(), Vec::<String>::new(), 0);
    let mut places = Vec::new();
    for letter in text.chars() {
        match letter {
            '[' => {
                depth += 1;
                options.push(String::new());
                places.push(plain.len());
            }
            ']' => depth -= 1,
            letter if depth > 0 => options.last_mut().unwrap().push(letter),
            letter => plain.push(letter),
        }
    }
    let mut all = vec![values(&plain)];
    for (option, place) in options.iter().zip(places) {
        for choice in option.split(" | ") {
            all.push(values(&format!("{}{choice}{}", &plain[..place], &plain[place..])));
        }
    }
    all
}

/// The words, each placeholder replaced by a value of its kind.
fn values(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter(|word| *word != "...");
    let value = |word: &str| {
        if !has_placeholder(word) {
            return word.to_owned();
        }
        match word {
            "N" | "SEED" | "MINUTES" => "3".to_owned(),
            "NAMES" => "1000".to_owned(),
            "URL" => "sqlite:/tmp/x.db".to_owned(),
            "DURATION" => "3s".to_owned(),
            "COMMAND" | "PROGRAM" => "/bin/true".to_owned(),
            _ if word.contains("PORT") => word.replace("HOST", "127.0.0.1").replace("PORT", "7070"),
            _ => word.chars().map(|c| c.to_ascii_lowercase()).collect(),
        }
    };
    words.map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
Text: `callsign x`.

    cargo run --release --bin callsign -- demo     # three processes
    callsign doctor --store URL [--json]; callsign wipe --store URL
    PGPASSWORD=... callsign node --name a          # (needs a Postgres server)
    cargo run -p callsign-sim -- run --seeds 100   # all faults (long; in CI with --seeds 6 --small)
    let callsign = 1;

```rust
    callsign no
```
```sh
callsign ls [--node URL | --token-file FILE]
```
";

    fn page() -> Vec<Documented> {
        on_page("README.md", PAGE)
    }

    #[test]
    fn commands_are_lines_of_code_blocks() {
        let texts: Vec<_> = page().iter().map(Documented::text).collect();
        assert_eq!(
            texts,
            [
                "cargo run --release --bin callsign -- demo",
                "callsign doctor --store URL [--json]",
                "callsign wipe --store URL",
                "callsign node --name a",
                "cargo run -p callsign-sim -- run --seeds 100",
                "callsign ls [--node URL | --token-file FILE]",
            ]
        );
        let forms: Vec<_> = page().iter().map(Documented::is_form).collect();
        assert_eq!(forms, [false, true, true, false, false, true]);
    }

    #[test]
    fn a_remark_says_how_it_is_run() {
        let page = page();
        assert_eq!(page[3].needs(), Some("a Postgres server"));
        assert_eq!(page[0].needs().or(page[4].needs()), None);
        assert_eq!(page[4].shortened().unwrap().text(), "cargo run -p callsign-sim -- run --seeds 6 --small");
        assert!(page[0].shortened().is_none());
        assert_eq!(page[3].environment, [("PGPASSWORD".to_owned(), "...".to_owned())]);
    }

    #[test]
    fn what_is_exported_and_what_goes_on_is_of_one_block() {
        let page = "```sh\nexport CALLSIGN_STORE=sqlite:/tmp/x.db\ncallsign node --name a --store $CALLSIGN_STORE # (goes on)\ncallsign ls\n```\n\
                    ```sh\ncallsign ls\n```\n";
        let [node, ls, other] = &on_page("x.md", page)[..] else { panic!() };
        assert_eq!((node.goes_on(), ls.goes_on()), (true, false));
        assert_eq!(node.text(), "callsign node --name a --store sqlite:/tmp/x.db");
        assert!(!node.is_form(), "what stands for a value is no placeholder");
        assert_eq!(
            (&node.block, &ls.block, &other.block),
            (&"x.md:1".into(), &"x.md:1".into(), &"x.md:6".into())
        );
        let inside = ls.clone().with_files_in("/elsewhere".as_ref());
        assert_eq!(inside.environment, [("CALLSIGN_STORE".to_owned(), "sqlite:/elsewhere/x.db".to_owned())]);
        assert_eq!(other.environment, []);
    }

    #[test]
    fn files_of_a_run_are_in_its_own_folder() {
        let [chaos] = &on_page("x.md", "    callsign-chaos --out /tmp/x --store sqlite:/tmp/y.db")[..] else {
            panic!()
        };
        let inside = chaos.clone().with_files_in("/elsewhere".as_ref());
        assert_eq!(inside.text(), "callsign-chaos --out /elsewhere/x --store sqlite:/elsewhere/y.db");
    }

    #[test]
    fn a_form_is_filled_in_once_for_each_choice() {
        let page = page();
        let said =
            |at: usize| page[at].calls_of("callsign").iter().map(|words| words.join(" ")).collect::<Vec<_>>();
        assert_eq!(said(0), ["demo"]);
        assert_eq!(said(1), ["doctor --store sqlite:/tmp/x.db", "doctor --store sqlite:/tmp/x.db --json"]);
        assert_eq!(said(5), ["ls", "ls --node sqlite:/tmp/x.db", "ls --token-file file"]);
        assert_eq!(page[4].calls_of("callsign"), Vec::<Vec<String>>::new());
        assert_eq!(page[4].calls_of("callsign-sim"), [["run", "--seeds", "100"]]);
    }
}
