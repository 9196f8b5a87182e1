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
    /// What decides who leads, and elections for everything else.
    Elections,
}

/// Every layer.
pub(crate) const LAYERS: [Layer; 5] =
    [Layer::Cores, Layer::Drivers, Layer::Transport, Layer::Stores, Layer::Elections];

/// What the stores have in common, beside the backends.
const OF_STORES: [&str; 5] = ["contract", "core", "driver", "error", "forward"];

/// What `store` has for the drivers of all crates; it is no store.
const NO_STORE: [&str; 9] =
    ["clock", "entropy", "ids", "keys", "lock", "metrics", "random", "record", "supervision"];

/// What no test of this build can notice, and what is there for tests only.
const NOT_JUDGED: [&str; 13] = [
    "conformance",
    "cores",
    "failures",
    "fdb",
    "flow",
    "fuzz",
    "node_server",
    "processes",
    "recorders",
    "test",
    "testing",
    "tests",
    "world",
];

/// The drivers of campaigns are among the drivers.
const CAMPAIGNS: &str = "election/src/driver/campaign";

/// Whether a file or folder belongs to a layer, by its name.
type Belongs = fn(&str) -> bool;

impl Layer {
    /// The files of this layer, below the root of the workspace, in a fixed order.
    pub(crate) fn files(self, root: &Path) -> Result<Vec<PathBuf>> {
        let any: Belongs = |_| true;
        let folders: &[(&str, Belongs)] = match self {
            Self::Cores => &[("registry/src/core", any)],
            Self::Drivers => {
                &[("registry/src", |name| name != "core"), ("elector/src/driver", any), (CAMPAIGNS, any)]
            }
            Self::Transport => &[("transport/src", any)],
            Self::Stores => &[("store/src", |name| OF_STORES.contains(&name))],
            Self::Elections => &[("elector/src", |name| name != "driver"), ("election/src", any)],
        };
        let mut files = Vec::new();
        for (folder, belongs) in folders {
            let mut here = Vec::new();
            collect(&root.join(folder), &mut here)?;
            here.retain(|file| is_judged(file.strip_prefix(root.join(folder)).unwrap_or(file), *belongs));
            if matches!(self, Self::Stores) {
                here.retain(|file| !names(file).any(|name| NO_STORE.contains(&name.as_str())));
            }
            if matches!(self, Self::Elections) {
                here.retain(|file| !file.starts_with(root.join(CAMPAIGNS)));
            }
            files.extend(here);
        }
        files.sort();
        Ok(files)
    }
}

/// Whether a file counts, by the names of its folders and its own, and by whether the first of them belongs to the layer.
fn is_judged(relative: &Path, belongs: Belongs) -> bool {
    let counts = |name: String| !NOT_JUDGED.contains(&name.as_str()) && !name.ends_with("_tests");
    names(relative).all(counts) && names(relative).next().is_some_and(|name| belongs(&name))
}

/// The names of its folders and its own.
fn names(file: &Path) -> impl Iterator<Item = String> {
    file.iter().map(|part| part.to_string_lossy().trim_end_matches(".rs").to_owned())
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
