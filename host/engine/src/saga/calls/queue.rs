//! Calls that wait for room: at most so many at once in all and of one tenant, tenants in turn.

use std::collections::{HashMap, VecDeque};

use waybill_core::ids::Tenant;

/// What waits, by tenant, and how much is under way.
#[derive(Debug)]
pub(super) struct Queue<J> {
    running: usize,
    waiting: usize,
    running_max: usize,
    tenant_max: usize,
    tenants: HashMap<Tenant, TenantQueue<J>>,
    /// Tenants that have something waiting and room for it.
    turns: VecDeque<Tenant>,
}

#[derive(Debug)]
struct TenantQueue<J> {
    running: usize,
    waiting: VecDeque<J>,
    has_turn: bool,
}

impl<J> Queue<J> {
    /// At least one call may be under way, whatever the bounds say.
    pub fn new(running_max: usize, tenant_max: usize) -> Self {
        Self {
            running: 0,
            waiting: 0,
            running_max: running_max.max(1),
            tenant_max: tenant_max.max(1),
            tenants: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Other bounds from now on.
    pub fn bound(&mut self, running_max: usize, tenant_max: usize) {
        (self.running_max, self.tenant_max) = (running_max.max(1), tenant_max.max(1));
        let tenants: Vec<Tenant> = self.tenants.keys().cloned().collect();
        tenants.iter().for_each(|tenant| self.give_turn(tenant));
    }

    pub fn running(&self) -> usize {
        self.running
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    pub fn push(&mut self, tenant: &Tenant, job: J) {
        if !self.tenants.contains_key(tenant) {
            let queue = TenantQueue { running: 0, waiting: VecDeque::new(), has_turn: false };
            self.tenants.insert(tenant.clone(), queue);
        }
        if let Some(queue) = self.tenants.get_mut(tenant) {
            queue.waiting.push_back(job);
            self.waiting += 1;
        }
        self.give_turn(tenant);
    }

    /// The next call that may go out; it counts as under way from now on.
    pub fn next(&mut self) -> Option<J> {
        while self.running < self.running_max {
            let tenant = self.turns.pop_front()?;
            let Some(queue) = self.tenants.get_mut(&tenant) else { continue };
            queue.has_turn = false;
            if queue.running >= self.tenant_max {
                continue;
            }
            let Some(job) = queue.waiting.pop_front() else { continue };
            queue.running += 1;
            self.running += 1;
            self.waiting -= 1;
            self.give_turn(&tenant);
            return Some(job);
        }
        None
    }

    /// A call of this tenant ended.
    pub fn ended(&mut self, tenant: &Tenant) {
        self.running = self.running.saturating_sub(1);
        let Some(queue) = self.tenants.get_mut(tenant) else { return };
        queue.running = queue.running.saturating_sub(1);
        if queue.running == 0 && queue.waiting.is_empty() {
            self.tenants.remove(tenant);
            return;
        }
        self.give_turn(tenant);
    }

    /// Takes out what is to wait no longer.
    pub fn take(&mut self, mut gone: impl FnMut(&J) -> bool) -> Vec<J> {
        let mut taken = Vec::new();
        for queue in self.tenants.values_mut() {
            if !queue.waiting.iter().any(&mut gone) {
                continue;
            }
            let (out, kept): (Vec<J>, Vec<J>) = queue.waiting.drain(..).partition(&mut gone);
            queue.waiting = kept.into();
            taken.extend(out);
        }
        self.waiting -= taken.len();
        self.tenants.retain(|_, queue| queue.running > 0 || !queue.waiting.is_empty());
        taken
    }

    fn give_turn(&mut self, tenant: &Tenant) {
        let Some(queue) = self.tenants.get_mut(tenant) else { return };
        if !queue.has_turn && !queue.waiting.is_empty() && queue.running < self.tenant_max {
            queue.has_turn = true;
            self.turns.push_back(tenant.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    fn all(queue: &mut Queue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.next()).collect()
    }

    #[test]
    fn other_bounds_count_from_the_next_call() {
        let mut queue = Queue::new(2, 1);
        let (a, b) = (tenant("a"), tenant("b"));
        (0..4).for_each(|job| queue.push(&a, job));
        (100..104).for_each(|job| queue.push(&b, job));
        assert_eq!(all(&mut queue), [0, 100]);
        queue.bound(4, 3);
        assert_eq!(all(&mut queue).len(), 2, "both tenants have turns again");
        queue.bound(1, 1);
        queue.ended(&a);
        queue.ended(&b);
        assert!(all(&mut queue).is_empty(), "more are under way than may be");
    }

    #[test]
    fn tenants_take_turns_up_to_their_bound_and_the_bound_of_all() {
        let mut queue = Queue::new(5, 3);
        let (a, b) = (tenant("a"), tenant("b"));
        (0..10).for_each(|job| queue.push(&a, job));
        (100..110).for_each(|job| queue.push(&b, job));
        assert_eq!(all(&mut queue), [0, 100, 1, 101, 2]);
        queue.ended(&a);
        assert_eq!(all(&mut queue), [102], "a has its three again only after its turn");
        queue.ended(&b);
        queue.ended(&b);
        assert_eq!(all(&mut queue), [3, 103]);
        assert_eq!((queue.running(), queue.waiting()), (5, 12));
    }

    #[test]
    fn what_is_taken_out_waits_no_more_and_an_idle_tenant_is_forgotten() {
        let mut queue = Queue::new(1, 1);
        let a = tenant("a");
        (0..4).for_each(|job| queue.push(&a, job));
        assert_eq!(queue.next(), Some(0));
        assert_eq!(queue.take(|job| job % 2 == 1), [1, 3]);
        queue.ended(&a);
        assert_eq!(all(&mut queue), [2]);
        queue.ended(&a);
        assert_eq!((queue.running(), queue.waiting(), queue.tenants.len()), (0, 0, 0));
    }
}
