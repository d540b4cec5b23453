//! What a run did, so that one that did nothing of interest doesn't count as a proof.

use std::fmt;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident: $text:literal, $must:literal;)*) => {
        /// Counts over one run or many.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// Adds another run's counts.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
            /// What never happened though it should have, over a run of many seeds.
            pub fn missing(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $(if $must && self.$name == 0 { missing.push($text); })*
                missing
            }
        }

        impl fmt::Display for Stats {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let counts = [$(format!("{} {}", $text, self.$name)),*];
                f.write_str(&counts.join(", "))
            }
        }
    };
}

stats! {
    /// Messages that clients began to enqueue.
    messages: "messages", true;
    /// Those that were committed.
    committed: "committed", true;
    /// Sends that reached the receiver.
    attempts: "attempts", true;
    /// Sends of a message that had been sent before.
    repeats: "re-attempts", true;
    /// Commits of owners and rivals that went in.
    commits: "commits", true;
    /// Commits that were refused because another came first.
    conflicts: "conflicts", true;
    /// Commits whose outcome the owner wasn't told.
    unknown: "unknown outcomes", true;
    /// Of those, found to have gone in.
    found_applied: "found applied", true;
    /// Of those, proved by a barrier never to go in.
    proved_undone: "proved undone by a barrier", true;
    /// Commits that went in long after their sender had given them up.
    late: "late commits applied", true;
    takeovers: "takeovers", true;
    /// Shards given back in good order.
    releases: "releases", true;
    crashes: "crashes", true;
    /// Of those, such as took several shards with them.
    wide_crashes: "crashes of several shards", true;
    /// Owners that found another in their place.
    lost_leases: "leases lost", true;
    /// Of those, such as whose process kept another shard.
    lost_alone: "leases lost beside others", true;
    /// Transactions that left messages on several doorsteps.
    spanning: "transactions over several shards", true;
    /// Messages that owners carried to other doorsteps.
    carried: "messages carried to their shard", true;
    /// Sends emitted under an old token.
    stale_sends: "stale sends", true;
    /// Settlements that came after their lease was lost.
    stale_settlements: "stale settlements", true;
    /// Other routes put in force.
    reroutes: "reroutes", true;
    /// Claimed segments rewritten to make room.
    evictions: "evictions", true;
    /// Reads of skipped keys from their resume point.
    resumes: "key resumes", true;
    /// Reads of skipped destinations.
    scope_resumes: "destination resumes", true;
    /// Takeovers after a death.
    deaths: "unclean ends", true;
    /// Takeovers from an owner that had given up in good order, or from itself.
    clean_ends: "clean ends", true;
    /// Ends that were taken for a death though the process stood still and lost its lease.
    mistaken: "leases lost that look like a death", false;
    trial_sends: "sends on trial", true;
    /// Of those, such as were on trial by themselves.
    lone_sends: "sends alone on trial", true;
    /// Sends of others while a suspect waited for its trial.
    beside: "sends beside waiting suspects", true;
    /// Sends that were named first.
    named_sends: "named sends", true;
    /// Processes that a poison message killed.
    poisonings: "poisonings", true;
    /// Most suspects at once.
    suspects: "suspects made", true;
    /// Messages claimed from outside.
    claims: "claims from outside", true;
    /// Of those, such as another worker had let go.
    claims_lost: "claims of ended leases", true;
    /// Calls begun while another was under way on their lane.
    calls_beside: "calls beside others", true;
    /// Looks of a lane for messages that found some waiting for a rate.
    rate_waits: "waits for a rate", true;
    /// Calls of one message that goes alone.
    lone_calls: "calls of what goes alone", true;
    /// Messages convicted of killing their process.
    convicted: "convicted", true;
    /// Of those, such as didn't.
    innocent: "of them innocent", false;
    /// Settlements by an answer that blames the destination.
    blocked: "blocked", true;
    /// Messages given back untried.
    released: "given back", true;
    retries: "retries", true;
    dead: "dead letters", true;
    expired: "expired", true;
    /// Scheduled messages that joined.
    joined: "scheduled joined", true;
    repeated_ids: "repeated ids", true;
    /// Ids that belonged to another message.
    taken_ids: "taken ids", true;
    /// Commits that failed because an id had been taken meanwhile.
    id_races: "id races", false;
    /// Commits that the store refused as too large.
    too_large: "commits too large", false;
    /// Takeovers in several commits.
    long_takeovers: "takeovers in several commits", true;
    commands: "commands", true;
    refused: "commands refused", true;
    /// Doorstep passes of more than one page.
    long_passes: "passes of several pages", true;
    /// Steps in which fresh messages waited in memory while their tenant had as many retries as it may.
    stalls: "stalled steps", true;
    /// Dead letters that held their key.
    held_keys: "held keys", true;
    /// Times that a wall clock was set.
    clock_steps: "clock steps", true;
    failed_reads: "failed reads", true;
    /// Ownerships with other bounds than the ones before.
    other_bounds: "ownerships with other bounds", true;
    /// Finished messages whose history was removed while the owner worked.
    purged: "purged", true;
    /// Owners that found that the store had lost commits.
    went_back: "stores that went back noticed", true;
    /// Rows that were made unreadable.
    spoilt: "rows spoilt", true;
    /// Messages whose segment or parked row went to quarantine.
    quarantined: "quarantined", true;
    /// Doorstep rows that became dead letters because they can't be read.
    malformed: "malformed doorstep rows", true;
    /// Steps of simulated time.
    steps: "steps", true;
}
