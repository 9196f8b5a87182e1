//! The layers, and which files belong to which.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A layer: edits are drawn for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Layer {
    /// What decides about names.
    Cores,
    /// What carries out what cores ask for, and what applications call.
    Drivers,
    /// Links between nodes.
    Transport,
    /// The stores' adapters that run on this machine.
    Stores,
}

/// Every layer.
pub(crate) const LAYERS: [Layer; 4] = [Layer::Cores, Layer::Drivers, Layer::Transport, Layer::Stores];

/// The cores of the registry that have no folder of their own; whatever else is in its `src` carries out.
const CORES: [&str; 20] = [
    "catchup", "core", "entry", "fence", "handoff", "host", "inbox", "input", "leader", "log", "member",
    "message", "name", "oracle", "outage", "reads", "replica", "snapshot", "table", "trim",
];

/// What no test of this build can notice, and what is there for tests only.
const NOT_JUDGED: [&str; 12] = [
    "conformance",
    "cores",
    "failures",
    "fdb",
    "fuzz",
    "golden_tests",
    "node_server",
    "recorders",
    "test",
    "test_server",
    "tests",
    "world",
];

/// Whether a file or folder belongs to a layer, by its name.
type Belongs = fn(&str) -> bool;

impl Layer {
    /// The files of this layer, below the root of the workspace, in a fixed order.
    pub(crate) fn files(self, root: &Path) -> Result<Vec<PathBuf>> {
        let any: Belongs = |_| true;
        let is_driver: Belongs = |name| name == "driver";
        let folders: &[(&str, Belongs)] = match self {
            Self::Cores => &[("registry/src", |name| CORES.contains(&name))],
            Self::Drivers => &[
                ("registry/src", |name| !CORES.contains(&name)),
                ("elector/src/session", is_driver),
                ("elector/src/elector", is_driver),
                ("elector/src/election/campaign", is_driver),
            ],
            Self::Transport => &[("transport/src", any)],
            Self::Stores => &[("elector/src/store", any)],
        };
        let mut files = Vec::new();
        for (folder, belongs) in folders {
            let mut here = Vec::new();
            collect(&root.join(folder), &mut here)?;
            here.retain(|file| is_judged(file.strip_prefix(root.join(folder)).unwrap_or(file), *belongs));
            files.extend(here);
        }
        files.sort();
        Ok(files)
    }
}

/// Whether a file counts, by the names of its folders and its own, and by whether the first of them belongs to the layer.
fn is_judged(relative: &Path, belongs: Belongs) -> bool {
    let mut names = relative.iter().map(|part| part.to_string_lossy().trim_end_matches(".rs").to_owned());
    let counts = |name: String| !NOT_JUDGED.contains(&name.as_str()) && !name.ends_with("_tests");
    names.clone().all(counts) && names.next().is_some_and(|name| belongs(&name))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in folder.read_dir().with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
