//! What nodes say of their churn while they run: lines of files that grow.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use crate::chaos::node::churn::Churned;

/// Up to where each file was read.
#[derive(Debug, Default)]
pub(super) struct Tails(BTreeMap<PathBuf, u64>);

impl Tails {
    /// The whole lines of a file that were not read yet. A process that has not said anything has no file.
    pub(super) fn news(&mut self, path: &Path) -> io::Result<Vec<Churned>> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let from = self.0.entry(path.to_owned()).or_default();
        file.seek(SeekFrom::Start(*from))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        *from += whole as u64;
        let lines = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(io::Error::other)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn each_line_is_read_once_and_only_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let mut tails = Tails::default();
        let took = |tails: &mut Tails| -> Vec<u32> {
            tails.news(&path).unwrap().into_iter().flat_map(|churned| churned.took).collect()
        };
        assert!(took(&mut tails).is_empty(), "there is no file yet");
        let mut file = File::create(&path).unwrap();
        let line =
            |n: u32| serde_json::to_string(&Churned { took: vec![n], ..Churned::default() }).unwrap() + "\n";
        file.write_all(format!("{}{}", line(1), &line(2)[..5]).as_bytes()).unwrap();
        assert_eq!(took(&mut tails), [1]);
        assert!(took(&mut tails).is_empty());
        file.write_all(&line(2).as_bytes()[5..]).unwrap();
        file.write_all(line(3).as_bytes()).unwrap();
        assert_eq!(took(&mut tails), [2, 3]);
        file.write_all(b"nonsense\n").unwrap();
        assert!(tails.news(&path).is_err());
    }
}
