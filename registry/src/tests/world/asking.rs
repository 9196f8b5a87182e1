//! What tests ask, and what they look at.

use super::*;

impl World {
    pub(crate) fn call(&mut self, node: &str, call: Call, wait: Duration) -> CallId {
        self.next_call += 1;
        let id = CallId(self.next_call);
        let now = self.now;
        self.push(now, &name(node), Next::Tell(Told::Member(Input::Call { id, call, wait })));
        id
    }

    pub(crate) fn begin_register(&mut self, node: &str, what: &str, actor: u64) -> CallId {
        let call = Call::Register { name: what.into(), actor, kind: Kind(7), on_lapse: OnLapse::Suspend };
        self.call(node, call, Duration::from_secs(20))
    }

    pub(crate) fn answer(&mut self, id: CallId) -> Answer {
        self.run_until("an answer", Duration::from_secs(30), |w| w.answers.contains_key(&id));
        self.answers.remove(&id).unwrap()
    }

    pub(crate) fn register(&mut self, node: &str, what: &str, actor: u64) -> Result<Position, RegisterError> {
        let id = self.begin_register(node, what, actor);
        match self.answer(id) {
            Answer::Registered(result) => result.map(|granted| granted.token),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn unregister(&mut self, node: &str, what: &str) -> Answer {
        let id = self.call(node, Call::Unregister { name: what.into() }, Duration::from_secs(20));
        self.answer(id)
    }

    pub(crate) fn end_actor(&mut self, node: &str, actor: u64) {
        let now = self.now;
        self.push(now, &name(node), Next::Tell(Told::Member(Input::ActorEnded { actor })));
    }

    pub(crate) fn row(&self, node: &str, what: &str) -> Option<Row> {
        self.nodes[&name(node)].member().replica().row(what)
    }

    pub(crate) fn table(&self, node: &str) -> BTreeMap<&Name, &Row> {
        self.nodes[&name(node)].member().replica().rows().collect()
    }

    /// The first position that the log still has.
    pub(crate) fn floor(&self) -> u64 {
        let floor = self.store.get(&self.keys.floor());
        floor.map_or(1, |value| PositionRecord::from_value(value).unwrap().0.0)
    }

    pub(crate) fn term(&self) -> Term {
        self.store.get(&self.keys.term()).map_or_else(Term::vacant, |value| Term::from_value(value).unwrap())
    }

    pub(crate) fn lock(&self) -> Option<Lock> {
        self.store.get(&self.keys.lock()).map(|value| Lock::from_value(value).unwrap())
    }

    pub(crate) fn leader(&self) -> Option<(NodeName, Epoch)> {
        let term = self.term();
        let leader = term.leader?.node;
        let serves = self.nodes.get(&leader).is_some_and(|n| n.member().is_serving());
        serves.then_some((leader, term.epoch))
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.leader().is_some()
            && self.lock().is_none()
            && self.nodes.values().all(|n| n.member().is_synced() && n.member().leader().is_some())
    }

    pub(crate) fn settle(&mut self) {
        self.run_until("all synced", Duration::from_secs(60), Self::is_settled);
    }
}
