//! Operations of the store: when they are done, what becomes of them, and what is given up and lands all the same.

use std::{borrow::Cow, sync::Arc};

use callsign::cores::{Batch, Input, OpId, Told};
use callsign_elector::{
    elector::{Input as ElectorInput, Notice, OpId as ElectorOp},
    session::{Input as SessionInput, RequestId},
};
use callsign_store::{
    CommitOutcome, Piece, Proof, StoreError, TooLarge, Transaction, Write, ids::Incarnation,
};

use super::{CoreId, Fate, NodeId, OpAnswer, Request, StoreOp, World, newer};

/// A transaction whose author does not wait for it any more, or is dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Orphan {
    /// Whose it is.
    pub author: (NodeId, Incarnation),
    /// Which core's.
    pub core: CoreId,
    /// The transaction.
    pub transaction: Arc<Transaction>,
}

impl World {
    pub(super) fn answer_op(&mut self, node: NodeId, nth: u8, fate: Fate) -> bool {
        let is_out = self.nodes.get(usize::from(node)).is_some_and(|machine| machine.outage);
        let Some(process) = self.process(node) else { return false };
        let Some(op) = process.ops.get(usize::from(nth)).filter(|op| op.answer.is_none()) else {
            return false;
        };
        let is_commit = matches!(op.request, Request::Commit(_));
        let is_refused = is_out || (is_commit && self.refuses);
        let is_proof = matches!(op.request, Request::Prove(..));
        // An elector's driver answers for a store that does not; a session and a member have to see to it themselves.
        let can_be_mute = op.core != CoreId::Elector && !is_proof;
        let fits = match fate {
            Fate::Done | Fate::Late => !is_refused,
            Fate::Unavailable => !is_proof,
            Fate::UnknownLater => is_commit,
            Fate::Conflict | Fate::UnknownDone | Fate::UnknownLost => is_commit && !is_refused,
            Fate::Mute => can_be_mute && !is_refused,
            Fate::MuteLater => can_be_mute && is_commit,
        };
        if !fits {
            return false;
        }
        let author = (node, process.incarnation);
        let (core, request) = (op.core, op.request.clone());
        let answer = match (request, fate) {
            (Request::Read(_), Fate::Unavailable) => OpAnswer::Read(Err(unavailable())),
            (Request::Read(reads), _) => {
                let is_newer = self.setup.newer.contains(&node);
                let result = self.store.read(&reads, None);
                let result = result.map(|read| if is_newer { newer::read(read) } else { read });
                OpAnswer::Read(result.map_err(|error| StoreError::Unavailable(error.to_string())))
            }
            (Request::Prove(of, incarnation), _) => {
                let id = self.setup.id(of.as_str());
                let lives = id.and_then(|id| self.process(id)).is_some_and(|p| p.incarnation == incarnation);
                OpAnswer::Proof(if self.setup.proof && !lives { Proof::Dead } else { Proof::None })
            }
            (Request::Commit(_), Fate::Unavailable) => {
                OpAnswer::Commit(CommitOutcome::Unavailable("sim".into()))
            }
            (Request::Commit(_), Fate::Conflict) => OpAnswer::Commit(CommitOutcome::Conflict),
            (Request::Commit(_), Fate::UnknownLost) => OpAnswer::Commit(CommitOutcome::Unknown),
            (Request::Commit(transaction), Fate::UnknownLater | Fate::MuteLater) => {
                self.orphans.push(Orphan { author, core, transaction });
                OpAnswer::Commit(CommitOutcome::Unknown)
            }
            (Request::Commit(transaction), Fate::UnknownDone) => {
                self.commit(&transaction, author, core);
                OpAnswer::Commit(CommitOutcome::Unknown)
            }
            (Request::Commit(transaction), Fate::Done | Fate::Late | Fate::Mute) => {
                OpAnswer::Commit(self.commit(&transaction, author, core))
            }
        };
        if let OpAnswer::Commit(outcome) = &answer {
            self.oracle.commit_ended((author.0, author.1, core), outcome);
        }
        let Some(process) = self.process_mut(node) else { return false };
        if matches!(fate, Fate::Mute | Fate::MuteLater) {
            process.ops.remove(usize::from(nth));
            return true;
        }
        process.ops[usize::from(nth)].answer = Some(answer);
        let is_late = fate == Fate::Late || process.paused;
        if !is_late {
            self.deliver_answer(node, nth);
        }
        true
    }

    pub(super) fn deliver_answer(&mut self, node: NodeId, nth: u8) -> bool {
        let Some(process) = self.process_mut(node).filter(|process| !process.paused) else { return false };
        if process.ops.get(usize::from(nth)).is_none_or(|op| op.answer.is_none()) {
            return false;
        }
        let StoreOp { core, id, request, answer } = process.ops.remove(usize::from(nth));
        let Some(answer) = answer else { return false };
        match (core, answer) {
            (CoreId::Session, OpAnswer::Read(result)) => {
                self.step_session(node, SessionInput::ReadDone { id: RequestId(id), result });
            }
            (CoreId::Session, OpAnswer::Commit(outcome)) => {
                self.step_session(node, SessionInput::CommitDone { id: RequestId(id), outcome });
            }
            (CoreId::Session, OpAnswer::Proof(proof)) => {
                if let Request::Prove(of, incarnation) = request {
                    self.step_session(node, SessionInput::Proof { node: of, incarnation, proof });
                }
            }
            (CoreId::Elector, OpAnswer::Read(result)) => {
                self.step_told(node, Told::Elector(ElectorInput::ReadDone { id: ElectorOp(id), result }));
            }
            (CoreId::Elector, OpAnswer::Commit(outcome)) => {
                self.step_told(node, Told::Elector(ElectorInput::CommitDone { id: ElectorOp(id), outcome }));
            }
            (CoreId::Member, OpAnswer::Read(result)) => {
                self.step_told(node, Told::Member(Input::ReadDone { id: OpId(id), result }));
            }
            (CoreId::Member, OpAnswer::Commit(outcome)) => {
                self.step_told(node, Told::Member(Input::CommitDone { id: OpId(id), outcome }));
            }
            _ => {}
        }
        self.go_on_leaving(node);
        self.settle(node);
        true
    }

    /// Commits, with everybody looking.
    fn commit(
        &mut self,
        transaction: &Transaction,
        author: (NodeId, Incarnation),
        core: CoreId,
    ) -> CommitOutcome {
        let transaction = if self.setup.newer.contains(&author.0) {
            &Cow::Owned(newer::written(transaction, &self.store))
        } else {
            &Cow::Borrowed(transaction)
        };
        if let Some(too_large) = self.too_large(transaction) {
            return CommitOutcome::TooLarge(too_large);
        }
        let mut oracle = std::mem::take(&mut self.oracle);
        let before = oracle.before_commit(self, transaction);
        let former = (self.setup.loses > 0).then(|| (self.store.clone(), oracle.clone()));
        let outcome = self.store.edit().apply(transaction);
        if matches!(outcome, CommitOutcome::Committed(_)) && !transaction.writes.is_empty() {
            self.former.extend(former);
            if self.former.len() > self.setup.loses {
                self.former.pop_front();
            }
            oracle.committed(self, transaction, &before, author, core);
            let Self { nodes, store, .. } = self;
            for machine in nodes {
                let Some(process) = &mut machine.process else { continue };
                let Some(parts) = &process.parts else { continue };
                let Some((keys, since)) = parts.watch.as_ref().filter(|_| !parts.fired) else { continue };
                if keys.iter().any(|key| store.changed_since(key, *since))
                    && let Some(parts) = &mut process.edit().parts
                {
                    parts.fired = true;
                }
            }
        }
        self.oracle = oracle;
        outcome
    }

    /// The store loses its latest commits. Watches on it are deaf: their versions are still to come.
    pub(super) fn go_back(&mut self, by: u8) -> bool {
        let Some(at) = self.former.len().checked_sub(usize::from(by)).filter(|_| by > 0) else {
            return false;
        };
        let mut lost = self.former.split_off(at);
        let Some((store, then)) = lost.pop_front() else { return false };
        self.store = store;
        self.granted.clear();
        self.left.clear();
        let mut oracle = std::mem::take(&mut self.oracle);
        oracle.went_back(self, &then);
        self.oracle = oracle;
        true
    }

    /// A batch with more operations than the store takes.
    fn too_large(&self, transaction: &Transaction) -> Option<TooLarge> {
        let limit = self.setup.most_ops;
        if limit == usize::MAX {
            return None;
        }
        let sizes = transaction.writes.iter().filter_map(|write| match write {
            Write::Put { key, value } => {
                self.setup.keys.log_position(key)?;
                Some(Batch::decode(value).ok()?.ops.len())
            }
            _ => None,
        });
        let size = sizes.max()?;
        (size > limit).then_some(TooLarge { what: Piece::Value, size, limit })
    }

    pub(super) fn land(&mut self, nth: u8) -> bool {
        if self.orphans.len() <= usize::from(nth) {
            return false;
        }
        let Orphan { author, core, transaction } = self.orphans.remove(usize::from(nth));
        let outcome = self.commit(&transaction, author, core);
        self.oracle.landed(&outcome);
        true
    }

    pub(super) fn vanish(&mut self, nth: u8) -> bool {
        let is_there = self.orphans.len() > usize::from(nth);
        if is_there {
            self.orphans.remove(usize::from(nth));
        }
        is_there
    }

    pub(super) fn fire_watch(&mut self, node: NodeId) -> bool {
        let Some(process) = self.process_mut(node).filter(|process| !process.paused) else { return false };
        let Some(parts) = process.parts.as_mut().filter(|parts| parts.fired) else { return false };
        parts.fired = false;
        parts.watch = None;
        self.step_told(node, Told::Elector(ElectorInput::Notice(Notice::Changed)));
        self.settle(node);
        true
    }

    /// What a process that ends leaves behind: commits that the store has not got to.
    pub(super) fn orphan(&mut self, node: NodeId, of: impl Fn(CoreId) -> bool) {
        let Some(process) = self.process(node) else { return };
        let author = (node, process.incarnation);
        let left: Vec<Orphan> = process
            .ops
            .iter()
            .filter(|op| op.answer.is_none() && of(op.core))
            .filter_map(|op| match &op.request {
                Request::Commit(transaction) => {
                    Some(Orphan { author, core: op.core, transaction: transaction.clone() })
                }
                _ => None,
            })
            .collect();
        self.orphans.extend(left);
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("sim".into())
}
