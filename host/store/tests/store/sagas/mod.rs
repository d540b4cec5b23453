//! Sagas on every engine: in memory and on disk.

mod guard;
mod lists;
mod rows;
mod support;

use waybill_store::{StoreConfig, SurrealStore};

async fn memory() -> ((), SurrealStore) {
    ((), SurrealStore::open(StoreConfig::new("mem://")).await.unwrap())
}

async fn disk() -> (tempfile::TempDir, SurrealStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = SurrealStore::open(StoreConfig::new(format!("surrealkv://{}", dir.path().display()))).await.unwrap();
    (dir, store)
}

/// Makes two tests of each sentence.
macro_rules! sentences {
    ($engine:ident: $($module:ident: $name:ident)*) => {
        mod $engine {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    let (_guard, store) = super::super::$engine().await;
                    super::super::$module::$name(&store).await;
                }
            )*
        }
    };
    ($($module:ident: $name:ident)*) => {
        mod on {
            sentences!(memory: $($module: $name)*);
            sentences!(disk: $($module: $name)*);
        }
    };
}

sentences! {
    guard: a_shard_that_nobody_wrote_is_the_default_record
    guard: a_token_counts_as_long_as_no_higher_one_was_taken
    guard: a_commit_of_an_earlier_writer_changes_nothing
    guard: of_two_commits_at_once_exactly_one_goes_in
    guard: of_two_takeovers_at_once_one_writes_on
    guard: a_takeover_finds_rows_journal_and_dead_letters
    guard: journal_records_below_the_floor_are_not_found_again
    guard: an_empty_commit_only_moves_the_record
    guard: messages_lie_on_their_doorsteps_in_order_but_not_twice
    rows: a_saga_that_rests_is_found_by_its_id_until_its_row_is_removed
    rows: an_id_that_does_not_tell_the_start_is_found_too
    rows: a_row_that_grows_and_shrinks_comes_back_as_it_was_written_last
    rows: a_row_that_is_written_and_removed_in_one_commit_is_gone
    rows: a_saga_that_rested_and_ended_is_found_among_the_ended
    rows: dead_letters_are_listed_marked_and_removed
    rows: a_version_of_a_definition_never_changes
    rows: definitions_are_listed_by_name_and_falling_version
    rows: a_content_is_found_by_its_hash
    lists: sagas_are_listed_newest_first_over_all_shards
    lists: a_filter_looks_at_the_columns
    lists: a_page_that_looked_at_too_much_goes_on_behind_its_cursor
    lists: a_cursor_of_another_list_is_refused
    lists: what_ended_long_ago_is_removed_oldest_first
    lists: what_has_an_id_of_an_idempotency_key_is_put_off_beside_what_is_not
    lists: removing_takes_large_trees_and_starts_along
}
