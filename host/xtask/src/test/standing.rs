//! The standing checks: those that look for what nobody thought of, and that every change has to pass. With everything built they
//! take three minutes at most, so that nobody leaves them out.

use anyhow::{Context, Result};

use super::job::Job;
use super::suites::Suite;

/// Suites, and what the names of their tests contain; none = all of them.
const CHECKS: &[(&str, Option<&str>)] = &[
    // Statements: the guard against random ones and against the wall behind it, every place of an expression, exploits, memory.
    ("store: lib waybill_store", Some("tests::walls::")),
    ("store: lib waybill_store", Some("guard::")),
    // Calls to the disk that fail, and power losses.
    ("store: test disk", None),
    // Steps of the wall clock while the host is killed.
    ("tests: test processes", Some("kill::a_wall_clock_that_is_set")),
    // The protocol under random schedules, and that each rule left out is noticed.
    ("tests: test rules", Some("model::")),
    ("testkit: lib waybill_testkit", Some("saga_model::")),
    ("testkit: lib waybill_testkit", Some("idempotency_model::")),
    ("testkit: lib waybill_testkit", Some("inbox_model::")),
    ("testkit: lib waybill_testkit", Some("direct_model::")),
    ("testkit: lib waybill_testkit", Some("streams_model::")),
    // Data directories of earlier versions.
    ("tests: test processes", Some("golden::")),
    // Sweeps: each GET as each tenant, each route without a token, addresses that lead inside.
    ("cli: test it", Some("tenants::no_get_shows_a_tenant_what_another_has")),
    ("server: test api", Some("auth::every_route_is_closed")),
    ("server: test api", Some("closed_routes::")),
    ("tests: test sandbox", Some("ssrf::")),
    // What routes match is what is called; who may listen where, and be called by which name.
    ("core: test it", None),
    ("server: lib waybill_server", Some("listen::")),
    // Bounds on what others can make many of: series, connections; and the modes of what lies on the disk.
    ("tests: test own_process", Some("metric_series::")),
    ("server: test api", Some("connections::")),
    ("server: test api", Some("shares::")),
    ("tests: test own_process", Some("guest_memory::")),
    ("tests: test sandbox", Some("guests::floods::")),
    ("sandbox: lib waybill_sandbox", Some("schema::")),
    ("cli: test it", Some("exposure::what_a_host_makes_is_its_owners_alone")),
    // Inputs that fuzzing found, and changed ones.
    ("fuzz: test replay", None),
];

/// What to run of these suites.
pub fn jobs(suites: &[Suite]) -> Result<Vec<Job>> {
    let job = |(name, tests): &(&str, Option<&str>)| {
        let suite = suites.iter().find(|suite| suite.name == *name);
        let suite = suite.with_context(|| format!("no suite is called {name:?}: mend the list of standing checks"))?;
        anyhow::Ok(Job::required(suite, *tests))
    };
    CHECKS.iter().map(job).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_check_whose_suite_is_gone_is_told() {
        let error = jobs(&[]).unwrap_err().to_string();
        assert!(error.contains("\"store: lib waybill_store\""), "{error}");
    }
}
