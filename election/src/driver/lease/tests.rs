//! The rows of requirements that a lease on any store has to meet, each on every store.
#![allow(clippy::unchecked_time_subtraction)] // all of them are known

mod again;
pub(crate) mod beds;
mod campaigns;
mod candidates;
mod choice;
mod clocks;
mod counting;
mod events;
mod faults;
mod heirs;
mod people;
mod records;

/// What was not run, where that is not said by a test of its own.
#[test]
fn stores_that_were_left_out() {
    #[cfg(not(feature = "postgres"))]
    println!("skipped: elections on Postgres: built without the feature `postgres`");
    #[cfg(not(feature = "etcd"))]
    println!("skipped: elections on etcd: built without the feature `etcd`");
    #[cfg(not(feature = "any-fdb"))]
    println!("skipped: elections on FoundationDB: built without the feature `fdb`");
}

/// Makes tests of the same functions on every store.
macro_rules! on_every_store {
    ($tests:ident) => {
        mod memory {
            #[allow(unused_imports)] // one of the macros is in scope already
            use super::$tests;
            $tests!({ $crate::lease::tests::beds::Stores::memory() });
        }
        mod sqlite {
            #[allow(unused_imports)] // one of the macros is in scope already
            use super::$tests;
            $tests!({ $crate::lease::tests::beds::Stores::sqlite() });
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            #[allow(unused_imports)] // one of the macros is in scope already
            use super::$tests;
            $tests!({ $crate::lease::tests::beds::Stores::postgres() });
        }
        #[cfg(feature = "etcd")]
        mod etcd {
            #[allow(unused_imports)] // one of the macros is in scope already
            use super::$tests;
            $tests!({ $crate::lease::tests::beds::Stores::etcd() });
        }
        #[cfg(feature = "any-fdb")]
        mod foundationdb {
            #[allow(unused_imports)] // one of the macros is in scope already
            use super::$tests;
            $tests!({ $crate::lease::tests::beds::Stores::foundationdb() });
        }
    };
}

/// What any fenced oracle has to do.
mod conformance {
    use crate::election_rows;
    on_every_store!(election_rows);
}

/// What only this one has to do.
mod rows {
    macro_rules! lease_rows {
        ($stores:block) => {
            lease_rows! { $stores
                candidates: e1_whoever_is_not_registered_is_told_and_writes_nothing,
                candidates: e1_e4_a_member_that_was_evicted_registers_again_by_itself,
                candidates: e2_stamps_grow_in_the_order_of_registration,
                candidates: e3_a_heartbeat_keeps_the_stamp_and_may_change_the_priority,
                candidates: e4_whoever_was_evicted_and_registers_again_is_junior_to_all,
                candidates: e5_the_living_are_listed_by_seniority_and_nothing_is_written,
                candidates: e5_e6_more_candidates_than_one_read_shows,
                candidates: e6_the_silent_are_evicted_and_counted_and_one_that_is_heard_meanwhile_stays,
                candidates: e7_a_leader_that_unregisters_ends_its_term_in_the_same_transaction,
                candidates: e7_whoever_leaves_takes_its_row_and_its_term_along_and_nobody_elses,
                candidates: e6_a_holder_sweeps_whoever_it_saw_silent_for_long_and_nobody_else,
                candidates: f3_down_and_resign_of_the_unknown_change_nothing,
                candidates: f5_another_member_that_dies_disturbs_nobody,
                candidates: d10_whatever_the_number_of_candidates_leading_costs_the_same,
                candidates: d16_a_cycle_is_a_heartbeat_and_a_claim_or_refresh_in_one_transaction,
                clocks: c1_a_silent_holder_is_followed_within_its_lease_and_a_poll,
                clocks: c2_what_members_clocks_show_changes_nothing,
                clocks: c3_only_who_saw_the_very_record_for_its_whole_duration_takes_over,
                clocks: c4_h2_the_persisted_duration_counts_and_not_ones_own,
                clocks: c5_a_slow_read_does_not_age_what_it_saw,
                clocks: c5_an_attempt_that_was_given_up_leaves_no_observation,
                clocks: c10_a_holder_counts_from_the_start_of_its_attempt,
                clocks: b9_after_a_lease_that_was_not_given_back_the_seat_stays_empty,
                clocks: d11_a_leader_is_asked_for_with_and_without_its_lease,
                clocks: d11_of_a_leader_that_was_not_watched_nothing_is_known,
                clocks: d11_a_leader_that_lives_is_known_within_a_lease,
                clocks: b8_anyone_can_verify_a_token,
                clocks: d17_a_refresh_that_nobody_knows_of_does_not_stretch_the_lease,
                records: a7_a_term_that_came_back_is_not_the_former_one,
                records: a8_elected_at_is_the_stores_time,
                records: a10_a_record_that_cannot_be_read_is_an_error_and_never_a_vacant_seat,
                records: a11_what_cannot_work_is_refused_before_anything_is_written,
                records: a11_a_counter_at_its_end_is_an_error_and_writes_nothing,
                records: h9_a_lost_seat_goes_to_nobody_for_a_lease_and_its_ballots_are_not_given_out_again,
                records: h9_h2_a_lost_seat_is_waited_for_as_long_as_was_configured_when_it_was_lost,
                records: h9_h1_a_lost_configuration_is_initialised_anew_and_the_ballots_go_on,
                records: h1_the_first_configuration_stands_and_before_it_there_is_nothing,
                records: h5_ten_members_start_at_once_on_an_empty_store,
                records: e17_the_durable_policy_decides_and_the_mismatch_is_reported,
                choice: e8_the_best_by_priority_then_seniority_then_id_is_elected,
                choice: e9_priority_0_is_never_elected_and_a_leader_that_takes_it_is_followed_at_once,
                choice: e10_when_the_top_falls_silent_the_next_leads_after_expiry_and_one_recheck,
                choice: e11_a_higher_priority_replaces_the_leader_and_the_leader_hears_of_it,
                choice: e12_equals_never_replace_each_other,
                choice: e13_a_leader_is_asked_first_and_replaced_after_the_grace,
                heirs: e11_e13_a_seat_that_was_given_up_for_a_better_one_is_left_to_it,
                heirs: e11_e13_a_seat_that_was_given_up_for_one_that_died_is_free_a_lease_later,
                heirs: e11_b9_a_holder_that_is_deposed_leaves_the_seat_to_the_better_one_after_the_lock_delay,
                heirs: e10_e11_whoever_waits_for_the_seat_that_it_vacated_is_heard_and_not_passed_over,
                heirs: e10_whoever_waits_is_told_to_ask_in_time_for_its_heartbeat,
                choice: e16_a_top_candidate_that_dies_again_and_again_does_not_move_the_seat,
                choice: e18_who_lacks_what_is_required_takes_part_and_is_never_elected,
                choice: h2_h3_a_disabled_election_takes_nothing_and_drains_or_stops_its_leader,
                choice: h4_two_elections_share_no_key,
                choice: d12_d13_a_request_to_resign_is_of_one_epoch_and_heard_once,
                choice: d12_h6_a_request_is_heard_with_the_next_refresh_if_nothing_is_watched,
                events: h10_each_event_is_told_once_in_order_with_its_fields,
                events: h10_what_a_commit_of_unknown_outcome_won_is_told_when_it_is_found,
                choice: i1_f11_followers_are_woken_by_a_resignation_and_not_by_a_refresh,
            }
        };
        ($stores:block $($module:ident: $check:ident,)*) => {$(
            #[tokio::test]
            async fn $check() {
                if let Some(stores) = $stores {
                    $crate::lease::tests::$module::$check(stores).await;
                }
            }
        )*};
    }
    use lease_rows;
    on_every_store!(lease_rows);
}
