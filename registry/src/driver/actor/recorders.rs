//! What a registry's elector and member were told and asked for, in a file each.

use std::path::Path;

use callsign_elector::{
    elector::ElectorConfig,
    recording::{Core, Header, Recorder},
};
use callsign_store::ids::{ClusterName, Incarnation, NodeName, RegistryName};

use crate::core::{
    input::{Input, Now},
    member::MemberConfig,
    registry::{RegistryCore, RegistryEffect, Told},
    table::Table,
};

/// Both recordings. One that could not be begun, or that has failed, is `None`.
pub(crate) struct Recorders {
    elector: Option<Recorder>,
    member: Option<Recorder>,
}

impl Recorders {
    /// Begins both, in a directory.
    pub(crate) fn begin(
        dir: &Path,
        (cluster, registry): (&ClusterName, &RegistryName),
        (node, incarnation): (&NodeName, Incarnation),
        (elector, member): (&ElectorConfig, &MemberConfig),
    ) -> Self {
        let header = |core| Header {
            core,
            cluster: cluster.clone(),
            registry: Some(registry.clone()),
            node: node.clone(),
            incarnation,
        };
        Self {
            elector: Recorder::begin(dir, &header(Core::Elector), elector),
            member: Recorder::begin(dir, &header(Core::Member), member),
        }
    }

    /// Steps a core, and records what it was told and what it asks for, before that is carried out.
    pub(super) fn step<T: Table>(
        &mut self,
        core: &mut RegistryCore<T>,
        now: Now,
        told: Told,
        effects: &mut Vec<RegistryEffect>,
    ) {
        let begin = effects.len();
        match &told {
            Told::Session(_) => core.step(now, told, effects),
            Told::Elector(input) => {
                let Some(recorder) = &mut self.elector else { return core.step(now, told, effects) };
                recorder.before(&now.time, input);
                core.step(now, told, effects);
                let asked = effects[begin..].iter().filter_map(|effect| match effect {
                    RegistryEffect::Elector(effect) => Some(effect.clone()),
                    _ => None,
                });
                recorder.after(&asked.collect::<Vec<_>>());
                recorder.flush();
            }
            Told::Member(input) => {
                let Some(recorder) = &mut self.member else { return core.step(now, told, effects) };
                recorder.before(&now, input);
                let (known, is_last) = (core.asked().len(), *input == Input::Idle);
                core.step(now, told, effects);
                if is_last {
                    // All that it asked for since the last time comes out.
                    let asked = effects[begin..].iter().filter_map(|effect| match effect {
                        RegistryEffect::Member(effect) => Some(effect.clone()),
                        _ => None,
                    });
                    recorder.after(&asked.skip(known).collect::<Vec<_>>());
                    recorder.flush();
                } else {
                    recorder.after(&core.asked()[known..]);
                }
            }
        }
    }

    /// Both end here.
    pub(super) fn finish(&mut self) {
        for recorder in [&mut self.elector, &mut self.member].into_iter().flatten() {
            recorder.finish();
        }
    }
}
