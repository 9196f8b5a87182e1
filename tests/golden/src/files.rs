//! What versions wrote, in files: `tests/golden/files/CRATE/VERSION.txt`, a line for each sample, its name and its bytes in hex.

use std::{
    collections::BTreeMap,
    fmt::{Debug, Display, Write},
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{next::with_unknown_fields, variants::variants};

/// Names of samples, and their bytes.
type NamedBytes = Vec<(String, Vec<u8>)>;
type Reads = Box<dyn Fn(&[u8]) -> Result<(), String>>;

struct Sample {
    writes: Vec<u8>,
    reads: Reads,
}

/// The samples of one crate, held against its golden files.
///
/// A file is never changed once its version is out: of a sample whose bytes are to change a later version's file has
/// another line. All lines must be read as the sample is; the last one is what must be written.
///
/// With `CALLSIGN_GOLDEN=add`, samples that no file has are added to the file of the present version.
pub struct Golden {
    directory: PathBuf,
    version: &'static str,
    samples: BTreeMap<String, Sample>,
}

impl Golden {
    /// Of the crate in this directory, in this version: `Golden::new(env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_VERSION"))`.
    ///
    /// # Panics
    /// If the directory has no name.
    pub fn new(crate_directory: &str, version: &'static str) -> Self {
        let name = Path::new(crate_directory).file_name().unwrap();
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("files").join(name);
        Self { directory, version, samples: BTreeMap::new() }
    }

    /// Adds a record of the store, under `record/NAME`: a schema's byte, then its fields by their names. What a later version
    /// writes into it must be passed over.
    ///
    /// # Panics
    /// If it is not.
    pub fn record<R: Debug + PartialEq + 'static, E: Debug + Display>(
        &mut self,
        name: &str,
        record: R,
        write: impl Fn(&R) -> Vec<u8>,
        read: impl Fn(&[u8]) -> Result<R, E> + 'static,
    ) {
        let written = write(&record);
        if matches!(written[1], 0x80..=0x8f) {
            let next = with_unknown_fields(&written[1..]);
            assert!(!next.is_empty(), "{name} has no fields");
            for next in next {
                let next = [&written[..1], &next].concat();
                assert_eq!(read(&next).unwrap(), record, "{name}, as a later version writes it");
            }
        } else {
            assert_eq!(std::mem::size_of::<R>(), 8, "{name} has no names of fields");
        }
        self.sample(format!("record/{name}"), record, write, move |bytes| {
            read(bytes).map_err(|e| e.to_string())
        });
    }

    /// Adds a sample: a value, what it is written as, and how that is read.
    ///
    /// # Panics
    /// If there is one of that name.
    pub fn sample<T: Debug + PartialEq + 'static>(
        &mut self,
        name: impl Into<String>,
        value: T,
        write: impl Fn(&T) -> Vec<u8>,
        read: impl Fn(&[u8]) -> Result<T, String> + 'static,
    ) {
        let writes = write(&value);
        let reads = move |bytes: &[u8]| match read(bytes) {
            Ok(read) if read == value => Ok(()),
            Ok(read) => Err(format!("it is read as {read:?}, not as {value:?}")),
            Err(error) => Err(error),
        };
        let name = name.into();
        let former = self.samples.insert(name.clone(), Sample { writes, reads: Box::new(reads) });
        assert!(former.is_none(), "two samples are called {name}");
    }

    /// Each variant of an enum must have a sample that is called `PREFIX/VARIANT`, or something longer behind another `/`.
    ///
    /// # Panics
    /// If one has none.
    pub fn must_cover<'de, E: Deserialize<'de>>(&self, prefix: &str) {
        for variant in variants::<E>() {
            let name = format!("{prefix}/{variant}");
            let longer = format!("{name}/");
            let is_there = self.samples.keys().any(|sample| *sample == name || sample.starts_with(&longer));
            assert!(is_there, "there is no sample of {name}: add one where the others are");
        }
    }

    /// The bytes of all samples, by name.
    pub fn written(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.samples.iter().map(|(name, sample)| (name.as_str(), sample.writes.as_slice()))
    }

    /// Each record with another schema's byte must be refused by this reader, with this error: nothing is concluded from it.
    ///
    /// # Panics
    /// If one is not.
    pub fn must_name_other_schemas<R: Debug, E: Debug + PartialEq>(
        &self,
        schema: u8,
        read: impl Fn(&[u8]) -> Result<R, E>,
        error: &E,
    ) {
        for (name, bytes) in self.written().filter(|(name, _)| name.starts_with("record/")) {
            let other = [&[schema], &bytes[1..]].concat();
            assert_eq!(read(&other).as_ref().err(), Some(error), "{name}");
        }
    }

    /// Holds the samples against the files.
    ///
    /// # Panics
    /// If they do not agree.
    pub fn check(&self) {
        if std::env::var_os("CALLSIGN_GOLDEN").is_some_and(|mode| mode == "add") {
            self.add();
        }
        let mut last = BTreeMap::new();
        let mut wrong = String::new();
        for (file, lines) in self.files() {
            for (name, bytes) in lines {
                let Some(sample) = self.samples.get(&name) else {
                    writeln!(wrong, "{file}: {name} has no sample any more").unwrap();
                    continue;
                };
                if let Err(error) = (sample.reads)(&bytes) {
                    writeln!(wrong, "{file}: {name} cannot be read any more: {error}").unwrap();
                }
                last.insert(name, (file.clone(), bytes));
            }
        }
        for (name, sample) in &self.samples {
            match last.get(name) {
                None => writeln!(wrong, "{name} is in no file: run this with CALLSIGN_GOLDEN=add").unwrap(),
                Some((file, bytes)) if *bytes != sample.writes => {
                    let (was, is) = (hex(bytes), hex(&sample.writes));
                    writeln!(wrong, "{file}: {name} is not written like this any more:\n  {was}\n  {is}")
                        .unwrap();
                }
                Some(_) => {}
            }
        }
        assert!(wrong.is_empty(), "what other versions wrote, or read (docs/compatibility.md):\n{wrong}");
    }

    /// All files, older versions first.
    fn files(&self) -> Vec<(String, NamedBytes)> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&self.directory).unwrap().map(|file| file.unwrap().path()).collect();
        let version = |path: &PathBuf| -> Vec<u64> {
            let stem = path.file_stem().unwrap().to_str().unwrap();
            stem.split('.').map(|part| part.parse().unwrap()).collect()
        };
        paths.sort_by_key(version);
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(|line| {
                let (name, bytes) = line.split_once(' ').unwrap();
                (name.to_owned(), unhex(bytes))
            });
            (path.display().to_string(), lines.collect())
        };
        paths.into_iter().map(read).collect()
    }

    fn add(&self) {
        fs::create_dir_all(&self.directory).unwrap();
        let known: Vec<String> =
            self.files().into_iter().flat_map(|(_, lines)| lines).map(|(name, _)| name).collect();
        let file = self.directory.join(format!("{}.txt", self.version));
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let new = self.samples.iter().filter(|(name, _)| !known.contains(name));
        lines.extend(new.map(|(name, sample)| format!("{name} {}", hex(&sample.writes))));
        lines.sort();
        fs::write(file, lines.join("\n") + "\n").unwrap();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
