//! `callsign-mutants`: whether the tests notice edits.
//!
//! Draws single edits at random, so many of each layer, and puts all of them into one copy of the workspace, each behind a switch.
//! Every test is run once without any edit, to learn which places it comes to. Then each edit is switched on alone, and the
//! tests that come to its place are run until one of them fails twice. See `docs/mutants.md`.

#![forbid(unsafe_code)]

mod edits;
mod judges;
mod layers;
mod tree;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::Parser;
use rand::{SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};

use crate::{
    judges::Fate,
    layers::{LAYERS, Layer},
    tree::{Drawn, Tree},
};

/// Draws single edits of the sources, and says which of them no test notices.
#[derive(Parser)]
struct Cli {
    /// The layers to draw from; all, if none is given.
    #[arg(long = "layer")]
    layers: Vec<Layer>,
    /// Only edits of files whose path contains this.
    #[arg(long)]
    file: Option<String>,
    /// Only the unit tests of this package judge. That is quicker, and what other tests notice is not seen.
    #[arg(long)]
    tests_of: Option<String>,
    /// The features with which that package is built, beside its default ones.
    #[arg(long, default_value = "", requires = "tests_of")]
    features: String,
    /// How many edits are drawn from each layer.
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// What they are drawn with. Drawn itself, and printed, if it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// How many tests run at a time.
    #[arg(long, default_value_t = 3)]
    jobs: usize,
    /// For how many seconds the tests of one edit are run. Those that take longest come last, and may not be asked.
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// After how many minutes no further edit is judged.
    #[arg(long, default_value_t = 180)]
    minutes: u64,
    /// Where the copy and its build go: some gigabytes. It is kept, so that the next run builds less.
    #[arg(long, default_value = "target/mutants")]
    folder: PathBuf,
    /// Only prints what was drawn.
    #[arg(long)]
    list: bool,
}

/// In how many of a hundred edits a layer's tests must notice.
const WANTED: usize = 90;

fn main() -> Result<ExitCode> {
    let mut cli = Cli::parse();
    if cli.layers.is_empty() {
        cli.layers = LAYERS.to_vec();
    }
    let begun = Instant::now();
    let root = std::env::current_dir()?;
    let seed = cli.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let drawn = draw(&root, &cli.layers, cli.file.as_deref(), cli.count, seed)?;
    if cli.list {
        for one in drawn.values() {
            println!("{:?} {one}", one.layer);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let folder = std::path::absolute(&cli.folder)?;
    let tree = Tree::copy(&root, &folder.join("tree"), cli.tests_of.map(|package| (package, cli.features)))?;
    let edits = first_of_each(tree.settle(drawn)?, cli.count);
    let judges = judges::all(&tree)?;
    println!("{} edits, {} judges, built after {} s", edits.len(), judges.len(), begun.elapsed().as_secs());
    let sworn = judges::swear_in(judges, cli.jobs, &folder.join("reached"));
    println!("{} judges pass without any edit, after {} s", sworn.len(), begun.elapsed().as_secs());

    let mut fates: BTreeMap<u32, Fate> = BTreeMap::new();
    // The layers take turns, so that a run that is ended early has judged some of each.
    let mut order: Vec<(usize, u32)> = Vec::new();
    for layer in &cli.layers {
        let of_layer = edits.iter().filter(|(_, drawn)| drawn.layer == *layer);
        order.extend(of_layer.enumerate().map(|(turn, (number, _))| (turn, *number)));
    }
    order.sort_unstable();
    for (_, number) in order {
        if begun.elapsed() > Duration::from_secs(cli.minutes * 60) {
            break;
        }
        let fate = judges::judge(number, &sworn, cli.jobs, Duration::from_secs(cli.patience));
        let drawn = &edits[&number];
        match &fate {
            Fate::Killed(by) => println!("killed    {:?} {drawn}; by {by}", drawn.layer),
            Fate::Survived { reached, asked } => {
                println!("survived  {:?} {drawn}; {asked} of {reached} were asked", drawn.layer);
            }
        }
        fates.insert(number, fate);
    }
    Ok(if report(&cli.layers, &edits, &fates) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Draws the edits: no two of them touch each other. A quarter more than is asked for, as some will not compile.
fn draw(
    root: &Path,
    layers: &[Layer],
    only: Option<&str>,
    count: usize,
    seed: u64,
) -> Result<BTreeMap<u32, Drawn>> {
    let mut drawn = BTreeMap::new();
    for layer in layers {
        // So that a layer's sample does not depend on which others are asked for.
        let mut random = StdRng::seed_from_u64(seed ^ (*layer as u64) << 32);
        let mut all = Vec::new();
        for file in layer.files(root)? {
            let source = std::fs::read_to_string(&file)?;
            let edits = edits::edits_of(&source).with_context(|| format!("{} is no Rust", file.display()))?;
            let file = file.strip_prefix(root)?.to_owned();
            if only.is_some_and(|part| !file.to_string_lossy().contains(part)) {
                continue;
            }
            all.extend(edits.into_iter().map(|edit| Drawn { layer: *layer, file: file.clone(), edit }));
        }
        println!("{layer:?}: {} edits to draw from", all.len());
        all.shuffle(&mut random);
        let mut taken: Vec<Drawn> = Vec::new();
        for one in all {
            let touches = |other: &Drawn| {
                other.file == one.file
                    && other.edit.range.start < one.edit.range.end
                    && one.edit.range.start < other.edit.range.end
            };
            if taken.len() < count + count / 4 + 1 && !taken.iter().any(touches) {
                taken.push(one);
            }
        }
        let next = drawn.len();
        drawn.extend(
            (next..).zip(taken).map(|(number, drawn)| (u32::try_from(number).unwrap_or(u32::MAX), drawn)),
        );
    }
    Ok(drawn)
}

/// The edits that are judged: so many of each layer, in the order in which they were drawn.
fn first_of_each(edits: BTreeMap<u32, Drawn>, count: usize) -> BTreeMap<u32, Drawn> {
    let mut of_layer: BTreeMap<usize, usize> = BTreeMap::new();
    let is_wanted = |(_, drawn): &(u32, Drawn)| {
        let so_far = of_layer.entry(drawn.layer as usize).or_default();
        *so_far += 1;
        *so_far <= count
    };
    edits.into_iter().filter(is_wanted).collect()
}

/// Prints a line for each layer. True if each has noticed enough.
fn report(layers: &[Layer], edits: &BTreeMap<u32, Drawn>, fates: &BTreeMap<u32, Fate>) -> bool {
    let mut is_enough = true;
    println!();
    for layer in layers {
        let of_layer =
            || fates.iter().filter(|(number, _)| edits[number].layer == *layer).map(|(_, fate)| fate);
        let killed = of_layer().filter(|fate| matches!(fate, Fate::Killed(_))).count();
        let unreached = of_layer().filter(|fate| matches!(fate, Fate::Survived { reached: 0, .. })).count();
        let judged = of_layer().count();
        let drawn = edits.values().filter(|drawn| drawn.layer == *layer).count();
        let not_judged = drawn - judged;
        println!(
            "{layer:?}: {killed} of {judged} were noticed; no test comes to {unreached}; {not_judged} were not judged"
        );
        is_enough &= judged > 0 && killed * 100 >= judged * WANTED;
    }
    is_enough
}
