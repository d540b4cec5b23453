//! The sentences that every store has to make true. The in-memory reference store and the SurrealDB store run all of them.
//!
//! A sentence gets a fresh store and panics when it doesn't hold. [`store_conformance!`](crate::store_conformance) makes a
//! test of each. What it doesn't cover: SurrealQL statements, durability, several hosts on one store, speed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a sentence fails by panicking")]

pub mod audit;
pub mod bounds;
pub mod dedup;
pub mod door;
pub mod guard;
pub mod history;
pub mod idempotency;
pub mod ids;
pub mod inbox;
pub mod inbox_samples;
pub mod inbox_seen;
pub mod kv;
pub mod lists;
pub mod operations;
pub mod saga_aside;
pub mod saga_samples;
pub mod sagas;
pub mod samples;
pub mod segments;
pub mod stopped;
pub mod stream_blobs;
pub mod stream_exact;
pub mod stream_joint;
pub mod stream_owner;
pub mod stream_reads;
pub mod stream_resources;
pub mod stream_samples;
pub mod streams;
pub mod tokens;

use waybill_core::port::dedup::DedupStore;
use waybill_core::port::direct_store::DirectStore;
use waybill_core::port::idempotency::IdempotencyStore;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::kv::KvStore;
use waybill_core::port::query::QueryStore;
use waybill_core::port::saga_store::SagaStore;
use waybill_core::port::store::OwnerStore;
use waybill_core::port::tokens::TokenStore;
use waybill_core::port::transact::TransactStore;

/// All ports of a store.
pub trait Store:
    OwnerStore + TransactStore + QueryStore + KvStore + DedupStore + IdempotencyStore + TokenStore
{
}
impl<T: OwnerStore + TransactStore + QueryStore + KvStore + DedupStore + IdempotencyStore + TokenStore> Store for T {}

/// A store that keeps sagas, too.
pub trait SagaPorts: OwnerStore + SagaStore + QueryStore {}
impl<T: OwnerStore + SagaStore + QueryStore> SagaPorts for T {}

/// A store that keeps an inbox, too.
pub trait InboxPorts: OwnerStore + SagaStore + InboxStore + DirectStore {}
impl<T: OwnerStore + SagaStore + InboxStore + DirectStore> InboxPorts for T {}

/// Makes one test of each sentence. `$open` is an expression that awaits nothing and is called for each: an async function
/// that answers a guard (a directory, or `()`) and a store.
#[macro_export]
macro_rules! store_conformance {
    ($open:path) => {
        $crate::store_conformance!(@tests $open;
            guard: a_shard_without_a_record_is_the_default_record
            guard: the_first_commit_makes_the_record
            guard: a_record_comes_back_as_it_was_written
            guard: a_commit_with_a_stale_token_changes_nothing
            guard: a_commit_with_a_stale_beat_changes_nothing
            guard: a_commit_has_to_raise_the_beat
            guard: of_two_commits_at_once_exactly_one_goes_in
            guard: of_two_first_commits_at_once_exactly_one_goes_in
            guard: shards_do_not_disturb_each_other
            segments: segments_come_back_as_they_were_written
            segments: a_large_segment_comes_back_as_it_was_written
            segments: a_rewritten_segment_replaces_the_old_one_whatever_their_sizes
            segments: a_deleted_segment_is_gone_from_directory_and_data
            segments: the_directory_lists_in_order_and_in_pages
            segments: the_directory_tells_count_and_weight
            segments: asked_segments_come_in_the_order_asked_without_the_missing
            segments: a_quarantined_segment_leaves_the_order_and_is_listed
            segments: a_segment_that_can_be_read_leaves_quarantine_by_the_doorstep
            segments: what_is_dropped_from_quarantine_is_gone_and_pages_hold_each_once
            segments: writes_of_one_commit_apply_in_order
            stopped: parked_messages_come_back_as_they_were_written
            stopped: parked_messages_are_paged_by_seq
            stopped: a_parked_message_is_replaced_and_removed
            stopped: scheduled_messages_are_due_in_order_with_the_next_instant
            stopped: a_limit_on_scheduled_messages_tells_the_next_instant
            stopped: dead_letters_come_back_as_they_were_written
            stopped: dead_letters_are_old_by_their_death_where_the_clock_was_ahead
            stopped: held_keys_are_the_dead_letters_that_hold_one
            stopped: blobs_come_and_go
            door: a_group_comes_back_in_order_with_all_fields
            door: rows_come_in_key_order_and_in_pages
            door: the_range_of_stamps_is_inclusive
            door: a_deleted_row_is_gone
            door: a_forwarded_row_lies_on_the_other_shard
            door: stamps_do_not_run_ahead_of_the_door_clock
            door: the_newest_stamp_is_that_of_the_last_row
            door: a_taken_id_refuses_the_whole_transaction
            door: an_id_on_the_doorstep_refuses_a_transaction_with_statements
            door: groups_of_several_shards_commit_together
            door: a_hundred_transactions_at_once_all_arrive
            ids: id_rows_come_back_slot_by_slot
            ids: a_taken_id_fails_the_whole_commit
            ids: an_id_row_may_be_written_over_without_create
            ids: ids_of_two_tenants_are_two_ids
            history: chunks_come_back_as_they_were_written
            history: only_chunks_written_before_the_instant_are_old
            history: old_chunks_are_paged
            history: purging_takes_chunks_ids_and_blobs
            history: purging_spares_an_id_that_went_back_into_the_order
            history: purging_keeps_ids_of_idempotency_keys_for_their_time
            history: purging_takes_ids_of_idempotency_keys_that_are_over
            lists: a_place_finds_its_message_in_whatever_state
            lists: flowing_lists_leave_out_what_is_gone
            lists: a_list_is_paged_to_its_end_without_repeats
            lists: dead_letters_are_filtered_and_paged_in_key_order
            lists: the_latest_dead_letters_come_first_over_all_shards
            lists: the_newest_messages_come_first_over_all_kinds_and_shards
            lists: paging_goes_on_behind_a_dead_letter_that_is_gone
            lists: a_bad_cursor_is_refused
            lists: dead_letters_are_counted_and_grouped
            lists: a_tally_of_dead_letters_tells_what_is_left_out_and_stops_where_a_count_does
            lists: counts_of_dead_letters_stop_after_so_many_and_say_how_far_they_got
            lists: depths_follow_what_is_written
            lists: scheduled_parked_and_done_messages_are_listed
            operations: operations_are_kept_and_found
            operations: fates_are_added_up_by_operation_over_all_shards
            operations: operations_and_their_counts_go_when_they_were_over_for_long
            operations: only_running_operations_are_to_be_resumed
            operations: the_latest_operations_are_listed_and_a_tenant_sees_its_own
            operations: a_pause_stays_until_it_is_lifted
            operations: a_record_of_incidents_stays_until_it_is_empty
            audit: the_trail_is_read_from_its_end
            audit: a_tenant_reads_its_own_trail
            audit: every_event_comes_back_as_it_was_written
            audit: events_of_a_commit_that_does_not_go_in_are_not_there
            audit: acts_and_events_are_one_list_by_time_and_no_page_size_changes_it
            audit: lines_are_found_by_kind_id_and_time
            audit: the_trail_is_read_by_who_what_and_when
            audit: what_is_older_than_it_is_kept_goes_and_nothing_else
            audit: a_cursor_of_another_list_is_refused
            kv: an_entry_comes_back_with_its_revision
            kv: expectations_are_held
            kv: quotas_are_kept
            kv: keys_are_listed_in_order_by_prefix
            kv: scopes_are_apart
            tokens: tokens_come_back_by_name_as_they_were_written
            tokens: a_name_is_taken_once_until_its_token_is_removed
            tokens: of_two_tokens_of_a_name_at_once_exactly_one_goes_in
            dedup: the_first_reserves_the_next_is_held_and_then_hears_of_the_delivery
            dedup: two_of_one_call_are_a_first_and_a_held
            dedup: what_failed_lets_the_next_one_go
            dedup: a_reservation_that_nobody_decided_is_taken_over_when_it_is_stale
            dedup: a_delivery_is_remembered_for_its_window_and_then_collected
            dedup: an_entry_that_began_anew_outlives_the_old_ones_end
            dedup: tenants_transports_targets_and_payloads_are_apart
            idempotency: a_key_is_begun_once_and_answers_its_outcome_afterwards
            idempotency: every_field_of_an_entry_comes_back
            idempotency: acts_of_one_call_see_each_other_in_order
            idempotency: keys_of_two_tenants_are_two_keys
            idempotency: of_many_begins_at_once_one_gets_the_key
            idempotency: a_stale_token_changes_nothing
            idempotency: what_is_over_is_collected_and_what_began_anew_is_not
            idempotency: a_renewed_entry_outlives_its_first_end
            idempotency: entries_are_listed_by_filter_and_in_pages
            idempotency: a_transaction_finishes_a_key_with_its_commit_or_not_at_all
        );
    };
    (@tests $open:path; $($module:ident: $name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let (_guard, store) = $open().await;
                $crate::conformance::$module::$name(&store).await;
            }
        )*
    };
}

/// The same for the port of sagas.
#[macro_export]
macro_rules! saga_store_conformance {
    ($open:path) => {
        $crate::store_conformance!(@tests $open;
            sagas: sagas_of_a_shard_without_a_record_are_taken_empty
            sagas: a_lower_token_takes_no_sagas_and_an_equal_one_fences_its_earlier_self
            sagas: a_stale_commit_of_sagas_changes_nothing
            sagas: of_two_commits_of_sagas_at_once_exactly_one_goes_in
            sagas: the_journal_comes_back_from_its_floor_as_it_was_written
            sagas: rows_of_sagas_come_back_as_they_were_written_and_go
            sagas: messages_of_sagas_reach_the_doorstep_once
            sagas: lists_of_sagas_go_newest_first_and_in_pages
            sagas: lists_of_sagas_are_filtered_and_counted
            sagas: ended_sagas_expire_oldest_first
            sagas: an_ended_saga_stays_as_long_as_the_journal_holds_its_events
            sagas: ended_sagas_with_ids_of_idempotency_keys_stay_for_longer
            sagas: a_version_of_a_definition_never_changes
            sagas: definitions_are_found_by_name_version_and_hash
            sagas: stuck_sagas_are_dead_letters_of_their_kind
            audit: events_of_sagas_go_in_with_their_commit_or_not_at_all
            saga_aside: a_saga_that_is_set_aside_is_read_by_nobody_until_it_is_put_back
            saga_aside: all_that_was_set_aside_of_a_saga_comes_back_together
            saga_aside: what_is_dropped_of_a_saga_is_gone_with_its_dead_letter
            saga_aside: a_stale_commit_sets_no_saga_aside
        );
    };
}

/// The same for the port of the inbox.
#[macro_export]
macro_rules! inbox_store_conformance {
    ($open:path) => {
        $crate::store_conformance!(@tests $open;
            inbox: an_inbox_without_a_record_is_the_default_record
            inbox: a_record_of_the_inbox_comes_back_as_it_was_written
            inbox: a_stale_commit_of_the_inbox_changes_nothing
            inbox: of_two_commits_of_the_inbox_at_once_exactly_one_goes_in
            inbox: takes_come_back_by_beat_and_go
            inbox: rows_of_the_inbox_come_back_as_they_were_written_and_go
            inbox: rows_of_the_inbox_are_filtered_and_paged
            inbox: rows_of_the_inbox_are_listed_latest_first_over_all_shards
            inbox: a_page_of_the_inbox_says_how_many_rows_were_read_for_it
            inbox: dead_letters_of_the_inbox_come_back_and_are_marked
            inbox: messages_of_the_inbox_reach_the_doorstep_whatever_their_ids
            inbox: what_is_left_for_sagas_comes_in_order_until_it_is_removed
            inbox: a_consumer_is_bound_to_its_first_home
            inbox: what_a_host_knows_of_a_table_comes_back_as_it_was_written
            audit: events_of_the_inbox_go_in_with_their_commit_or_not_at_all
            audit: received_messages_are_found_by_their_consumer
            inbox_seen: what_was_seen_is_found_whatever_its_form
            inbox_seen: an_id_with_a_time_is_found_among_those_without
            inbox_seen: what_was_filed_by_a_stamp_is_found_without_it
            inbox_seen: many_ids_of_many_commits_are_all_found
            inbox_seen: what_is_out_of_the_window_is_forgotten_and_nothing_else
            inbox_seen: an_id_that_is_finished_again_is_as_old_as_the_last_time
            inbox_seen: the_history_of_an_id_is_found_the_latest_first_and_removed_after_its_time
        );
    };
}

/// The same for the port of event streams.
#[macro_export]
macro_rules! stream_store_conformance {
    ($open:path) => {
        $crate::store_conformance!(@tests $open;
            streams: streams_of_a_shard_without_a_record_are_the_default_record
            streams: a_record_of_streams_comes_back_as_it_was_written
            streams: a_stale_commit_of_streams_changes_nothing
            streams: of_two_commits_of_streams_at_once_exactly_one_goes_in
            streams: a_commit_that_finds_a_head_elsewhere_writes_nothing_and_says_where_it_stands
            streams: events_on_the_doorstep_come_back_in_order_with_all_that_they_say
            streams: the_doorstep_of_streams_is_read_in_pages_up_to_a_stamp
            streams: a_row_that_was_taken_in_is_gone_and_a_stray_lies_on_its_own_doorstep
            streams: a_pass_finds_the_ids_and_the_streams_of_its_rows_and_those_asked_for
            streams: what_the_feed_has_not_named_is_found_in_order_and_in_parts
            streams: old_ids_are_forgotten_and_may_be_used_again
            streams: an_id_is_put_once_and_nothing_of_a_commit_with_one_that_is_there_is_written
            stream_blobs: large_payloads_come_with_all_that_reads_events_and_not_with_what_only_looks
            stream_blobs: a_slice_has_as_many_large_payloads_as_go_into_its_bytes_and_the_first_one
            stream_blobs: a_chunk_that_is_written_again_leaves_large_payloads_where_they_are
            stream_blobs: a_large_payload_that_is_gone_is_an_error_at_its_chunk_and_never_an_empty_one
            stream_blobs: a_large_payload_of_an_exact_append_is_written_once_and_adopted_where_it_is
            stream_exact: an_exact_append_numbers_itself_and_leaves_a_note_for_the_owner
            stream_exact: a_look_ends_at_so_many_bytes_of_exact_appends_and_leaves_the_rows_behind_them
            stream_exact: an_exact_append_at_another_end_is_refused_and_leaves_nothing
            stream_exact: a_repeated_exact_append_answers_the_first_result
            stream_exact: of_many_exact_appends_at_once_each_number_is_given_once
            stream_exact: of_an_exact_append_and_an_owner_who_numbers_one_gets_the_number
            stream_exact: an_owner_who_adopts_disturbs_no_exact_append
            stream_joint: events_of_a_transaction_commit_with_its_messages
            stream_joint: a_stream_that_ends_elsewhere_undoes_the_whole_transaction
            stream_joint: a_transaction_whose_events_are_there_is_a_repeat_as_a_whole
            stream_joint: of_many_transactions_at_one_end_exactly_one_goes_in
            stream_joint: a_transaction_whose_message_waits_is_a_repeat_before_its_events_are_looked_at
            stream_joint: events_of_a_step_commit_with_its_state_and_its_messages
            stream_joint: events_of_a_handler_commit_with_its_mark
            stream_joint: a_step_whose_events_number_themselves_commits_whole_or_not_at_all
            stream_joint: a_handler_whose_events_number_themselves_commits_whole_or_not_at_all
            stream_joint: of_a_step_and_a_handler_at_one_end_exactly_one_goes_in
            streams: what_is_said_last_of_a_relay_is_noted_with_a_number_that_grows
            audit: events_of_streams_go_in_with_their_commit_or_not_at_all
            stream_owner: an_owner_numbers_what_all_append_at_once_without_a_gap
            stream_owner: an_id_is_numbered_once_whichever_way_its_event_comes
            stream_owner: events_with_numbers_from_elsewhere_are_named_from_the_first_that_is_kept
            stream_owner: rows_that_say_when_streams_are_due_come_by_time_and_by_shard
            stream_owner: who_takes_over_goes_on_where_the_one_before_ended
            stream_reads: a_stream_that_is_not_there_is_empty
            stream_reads: a_slice_goes_on_behind_any_position_whatever_was_merged
            stream_reads: a_slice_ends_at_its_bytes_and_has_one_chunk_at_least
            stream_reads: what_is_kept_of_a_stream_is_told_with_what_is_left_of_it
            stream_reads: the_feed_comes_in_order_until_it_is_trimmed
            stream_reads: a_feed_record_comes_with_its_events_whatever_was_merged
            stream_reads: streams_are_scanned_by_name_and_by_what_selects_them
            stream_reads: streams_are_listed_by_name_in_pages_with_where_they_stand
            stream_reads: who_scans_again_reads_what_he_lacks
            stream_reads: what_compaction_emptied_tells_nothing_of_what_a_reader_had
            stream_reads: checkpoints_come_back_and_relays_read_on_behind_them
            stream_reads: dead_letters_and_what_a_relay_never_had_are_listed_in_pages
            stream_reads: a_relay_goes_through_all_streams_of_its_shard
            stream_resources: of_what_is_indexed_only_the_chunks_of_a_resource_are_read
            stream_resources: a_row_that_is_taken_away_names_nothing_and_one_of_what_was_merged_still_does
            stream_resources: a_resource_with_many_chunks_is_read_in_parts_and_many_ids_by_the_stream_itself
            stream_resources: what_the_index_names_and_nobody_has_any_more_is_missed
        );
    };
}

#[cfg(test)]
mod tests {
    use waybill_core::streams::name::StreamKey;

    use crate::memory_store::MemoryStore;

    async fn open() -> ((), MemoryStore) {
        ((), MemoryStore::new())
    }

    crate::store_conformance!(open);
    crate::saga_store_conformance!(open);
    crate::inbox_store_conformance!(open);
    crate::stream_store_conformance!(open);

    #[tokio::test]
    async fn a_chunk_that_can_not_be_read_is_an_error_at_its_range() {
        let spoil = async |store: &MemoryStore, of: &StreamKey, last| store.spoil_chunk(of, last);
        super::stream_reads::a_chunk_that_can_not_be_read_is_an_error_at_its_range(&MemoryStore::new(), spoil).await;
    }

    #[tokio::test]
    async fn a_commit_that_is_too_large_is_refused_and_leaves_nothing() {
        let store = MemoryStore::new();
        store.bound_commits(8 << 20);
        super::bounds::a_commit_that_is_too_large_is_refused_and_leaves_nothing(&store, 8 << 20).await;
    }
}
