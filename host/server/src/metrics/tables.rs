//! Names and help of the server's own metrics, and of those that others record for it to show.

/// Names and help of a crate's metrics. Kinds follow from names: `_total` is a counter, a unit at the end of what is
/// recorded many times a histogram, anything else a gauge.
pub type Table = [(&'static str, &'static str)];

/// Metrics of this server, counted as they happen.
pub const METRICS: &Table = &[
    ("waybill_http_requests_total", "Requests answered, by route template, method and status."),
    (
        "waybill_http_request_duration_seconds",
        "Time from a request's head to its answer, by route template and method, in seconds.",
    ),
    ("waybill_http_connections", "Open connections."),
    ("waybill_http_connections_cut_total", "Connections closed by the host, by reason."),
    ("waybill_http_connections_shed_total", "Connections that found no place, by bound: all or peer."),
    ("waybill_page_readers", "Open pages that are told what changes."),
    ("waybill_http_refusals_total", "Callers that were refused (401, 403, 421), by code and route template."),
];

/// Gauges that are counted when somebody scrapes.
pub const SCRAPED: &Table = &[
    ("waybill_build_info", "1, with the version as label."),
    ("waybill_ready", "1 while no check of /readyz fails."),
    ("waybill_scrape_complete", "0 when the outbox didn't answer in time and its depths are missing from this scrape."),
    ("waybill_outbox_depth", "Messages by tenant, transport and state."),
    (
        "waybill_outbox_dead_counted_since_seconds",
        "Unix time back to which dead letters were counted; absent while all are.",
    ),
    (
        "waybill_outbox_scheduled_until_seconds",
        "Unix time up to which scheduled messages were counted; absent while all are.",
    ),
    ("waybill_outbox_oldest_ready_seconds", "Age of the oldest message that could be sent, by tenant and transport."),
    ("waybill_outbox_blocked", "Things that hold messages back, by kind."),
    ("waybill_transport_breaker_state", "Breaker of a transport: 0 closed, 1 half-open, 2 open."),
    ("waybill_transport_paused", "1 while an operator has paused the transport."),
    ("waybill_transport_in_flight", "Messages being sent by the transport."),
    ("waybill_inbox_unprocessed", "Messages received and not processed, by context."),
    ("waybill_inbox_oldest_unprocessed_seconds", "Age of the oldest message received and not processed, by context."),
    ("waybill_inbox_depth", "Messages of a consumer by state: in_hand, stored, orphan, suspect or dead."),
    ("waybill_inbox_stored_max", "Stored messages of a consumer past which its sources wait."),
    ("waybill_inbox_in_calls", "Messages of a consumer that are being handled."),
    ("waybill_inbox_concurrency", "Messages of a consumer that may be handled at once."),
    ("waybill_inbox_held", "1 while a consumer handles nothing: its handler asked for a pause, or can't be reached."),
    ("waybill_table_unpublished", "Rows of outbox tables that aren't published, by context."),
    (
        "waybill_table_oldest_unpublished_seconds",
        "Age of the oldest row of outbox tables that isn't published, by context.",
    ),
    ("waybill_table_failed", "Rows of outbox tables that stand failed, by context."),
    ("waybill_source_paused", "1 while an operator has paused the source."),
    ("waybill_source_unsettled", "Deliveries of a source that aren't settled."),
    ("waybill_source_window", "Deliveries of a source that may be unsettled."),
    ("waybill_source_lag", "Messages known to wait at a source's peer; absent where it doesn't tell."),
    ("waybill_source_down", "1 while a source can't bring anything in: blocked or down."),
    ("tx_saga_running", "Sagas in memory: running, waiting, paused or stuck."),
    ("tx_saga_running_bytes", "Inputs and outputs of the sagas in memory."),
    ("tx_saga_paused", "Sagas that are held."),
    ("tx_saga_stuck", "Sagas stuck in a compensation: an operator has to act."),
    ("tx_saga_timers", "Timers of sagas: retries, timeouts and deadlines."),
    ("tx_saga_uncommitted", "Transitions of sagas that wait for a commit."),
];

/// Metrics of sagas, recorded by whoever runs them.
pub const SAGA_METRICS: &Table = &[
    ("tx_saga_started_total", "Sagas started, sub-sagas included, by tenant and definition."),
    ("tx_saga_completed_total", "Sagas whose steps all succeeded, by tenant and definition."),
    ("tx_saga_compensated_total", "Sagas that ended with all compensated, by tenant, definition and code."),
    ("tx_saga_failed_total", "Sagas that ended failed, by tenant, definition and cause: killed, accepted or skipped."),
    ("tx_saga_stuck_total", "Times that a saga got stuck in a compensation, by tenant and definition."),
    ("tx_saga_steps_total", "Attempts of steps answered, by kind of action, direction and result."),
    (
        "tx_saga_step_latency_seconds",
        "Time from the call of an http: or fn: step to its answer, without waits for a turn, a retry or a reply, by \
         definition, step and direction, in seconds.",
    ),
    (
        "tx_saga_duration_seconds",
        "Time from a saga's start to its end, sub-sagas included, by definition and state, in seconds.",
    ),
];

/// Metrics of the inbox and its sources, recorded by whoever runs them.
pub const INBOX_METRICS: &Table = &[
    ("tx_inbox_received_total", "Deliveries taken from a source."),
    ("tx_inbox_redelivered_total", "Deliveries that their source says it delivered before."),
    (
        "tx_inbox_duplicates_total",
        "Deliveries that a consumer had finished before (DUPLICATE_MESSAGE); nothing was handled.",
    ),
    ("tx_inbox_verdicts_total", "Answers of handlers, by consumer and verdict."),
    (
        "tx_inbox_processed_total",
        "Messages that a consumer finished, by consumer and end: processed, duplicate or dead.",
    ),
    ("tx_inbox_retry_total", "Failed attempts that are tried again, by consumer and code."),
    ("tx_inbox_dead_total", "Dead letters of the inbox, by consumer and code."),
    ("tx_inbox_dlq_total", "Messages left on a DLQ subject, by consumer."),
    (
        "tx_inbox_stored_total",
        "Messages stored, by consumer and cause: failed, or early (the window is nearly full, a deadline is near, its source brings it \
         a few times more only, an operator replays it).",
    ),
    (
        "tx_inbox_orphans_expired_total",
        "Places in the order that were given up because their messages didn't come again.",
    ),
    ("tx_inbox_seen_reads_total", "Reads of the store to look ids up in the seen set, by consumer."),
    (
        "tx_inbox_seen_forgotten_total",
        "Records of the seen set, with their notes, removed because all their ids were out of inbox.dedup_window.",
    ),
    ("tx_inbox_history_purged_total", "Records of finished messages removed after inbox.keep_done."),
    ("tx_inbox_call_seconds", "Time of calls to a handler, by consumer, in seconds."),
    ("tx_inbox_latency_seconds", "Time from the first delivery of a message to its end, by consumer, in seconds."),
    ("waybill_source_pulls_total", "Calls that asked a source for messages, by source and result."),
    ("waybill_source_settlements_total", "Deliveries settled at a source, by source and disposition."),
    (
        "waybill_source_lost_total",
        "Deliveries that could not be settled any more, by source and cause: revoked, lost or session.",
    ),
    ("waybill_source_unsettled_bytes", "Payload bytes of a source's deliveries that aren't settled."),
    ("waybill_source_overtaken_total", "Messages that a source's peer removed before they were read."),
    ("waybill_source_claims_expired_total", "Rows of which a source's claim ran out before they were settled."),
    ("waybill_source_made_anew_total", "How often what a source reads from was made anew."),
    (
        "waybill_source_place_lost_total",
        "How often more of a source was unsettled than is followed, so that a restart begins where it stood before.",
    ),
    ("waybill_source_commits_total", "Commits of a shard's inbox, by result: applied, or the code of what failed."),
    ("waybill_source_commit_seconds", "Time of one commit of a shard's inbox."),
];

/// Metrics of plugins, recorded by the sandbox.
pub const PLUGIN_METRICS: &Table = &[
    ("waybill_plugin_calls_total", "Calls into a plugin, by transport, plugin, generation and result."),
    ("waybill_plugin_call_seconds", "Time of calls into a plugin, in seconds."),
    ("waybill_plugin_traps_total", "Calls that trapped or ran out of time, by kind."),
    ("waybill_plugin_restarts_total", "Instances opened again after a failure."),
    ("waybill_plugin_cpu_seconds_total", "CPU time of a plugin's instances, in seconds."),
    ("waybill_plugin_memory_bytes", "Linear memory of a plugin's instances."),
    ("waybill_plugin_instances_open", "Instances that serve."),
    ("waybill_plugin_breaker_state", "Instances whose breaker is open because they kept failing."),
    ("waybill_plugin_denied_total", "Host calls refused because the grant doesn't cover them."),
    ("waybill_plugin_limit_hits_total", "Times that a plugin met one of its limits, by limit."),
    ("waybill_plugin_log_dropped_total", "Log lines dropped at the plugin's rate limit."),
    ("waybill_plugin_metrics_dropped_total", "Metrics of a plugin dropped at its limit of names and labels."),
    ("waybill_plugin_late_progress_total", "Outcomes told after their call was over."),
    ("waybill_plugin_generation", "Generation of the plugin that is live, by the name that operators know it by."),
    ("waybill_plugin_swaps_total", "Changes of plugin, by that name and result: live or rejected."),
    ("waybill_plugin_rollbacks_total", "Generations rolled back, by transport and cause: automatic or manual."),
    ("waybill_backoff_decisions_total", "Delays asked of a backoff plugin."),
    ("waybill_backoff_failures_total", "Answers of a backoff plugin that weren't usable; the built-in policy decided."),
    ("waybill_backoff_memory_bytes", "Linear memory of a backoff plugin."),
];

/// Names that a document gives to what is recorded in another unit, beside the names in seconds.
pub const OTHER_UNITS: &Table = &[
    ("tx_outbox_latency_ms", "As tx_outbox_latency_seconds, in milliseconds."),
    ("tx_saga_step_latency_ms", "As tx_saga_step_latency_seconds, in milliseconds."),
];
