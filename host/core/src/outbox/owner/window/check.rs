//! What the window must agree on, with itself and with the messages in memory. For tests.

use std::collections::{BTreeMap, HashMap};

use super::super::keys::Keys;
use super::Window;
use super::tenant::TenantWindow;
use crate::ids::{KeyHash, Seq, Tenant};

impl Window {
    /// `slots` counts messages in memory by segment, and how many of those keep it from being evicted; `tenants` counts them by
    /// tenant.
    pub fn check(
        &self,
        mut slots: HashMap<Seq, (usize, usize)>,
        tenants: &BTreeMap<Tenant, usize>,
        keys: &Keys,
        is_claimed: impl Fn(Seq) -> bool,
    ) -> Result<(), String> {
        for (tenant, window) in &self.tenants {
            let mine = tenants.get(tenant).copied().unwrap_or(0);
            if window.messages != mine {
                return Err(format!("tenant {tenant} is counted with {} messages and has {mine}", window.messages));
            }
        }
        let messages = tenants.values().sum::<usize>();
        if self.messages != messages {
            return Err(format!("the window counts {} messages, there are {messages}", self.messages));
        }
        for (first, loaded) in &self.segments {
            let (held, active) = slots.remove(first).unwrap_or_default();
            if (loaded.slots, loaded.active) != (held, active) {
                return Err(format!(
                    "segment {first} counts {} messages and {} active ones, there are {held} and {active}",
                    loaded.slots, loaded.active
                ));
            }
            if held == 0 && !is_claimed(*first) {
                return Err(format!("segment {first} is in memory for nothing"));
            }
        }
        if let Some(first) = slots.keys().next() {
            return Err(format!("segment {first} isn't in memory, messages of it are"));
        }
        self.check_directory()?;
        self.check_skipped(keys)
    }

    fn check_directory(&self) -> Result<(), String> {
        let mut stored: Vec<&Seq> = self.tenants.values().flat_map(|window| window.directory.keys()).collect();
        stored.sort_unstable();
        if !stored.into_iter().eq(self.stored.iter()) {
            return Err("the directories and the list of stored segments differ".to_owned());
        }
        let busy = self.tenants.values().filter(|window| !window.directory.is_empty()).count();
        if busy != self.busy_tenants {
            return Err(format!("{} tenants are counted as busy, {busy} are", self.busy_tenants));
        }
        Ok(())
    }

    fn check_skipped(&self, keys: &Keys) -> Result<(), String> {
        for (tenant, window) in &self.tenants {
            let is_readable = |key: &KeyHash| !keys.contains(*key) && is_readable(window, *key, keys);
            let wants = window.resume.keys().any(is_readable) || !window.caught_up();
            if wants && !self.wanted.contains(tenant) {
                return Err(format!("tenant {tenant} has something to read and isn't listed"));
            }
            let mut missing = window.resume.iter().filter(|(key, _)| is_readable(key));
            if missing.any(|(key, resume)| !window.resume_ready.contains(&(resume.from, *key))) {
                return Err(format!("a skipped key of tenant {tenant} could be read again and isn't listed"));
            }
        }
        Ok(())
    }
}

fn is_readable(window: &TenantWindow, key: KeyHash, keys: &Keys) -> bool {
    window.resume.get(&key).is_some_and(|resume| resume.hold.is_none() && !keys.is_fenced(key, resume.from))
}
