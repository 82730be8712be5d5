//! One test per scenario.

use crate::holds;

#[test]
fn r2_steady_calls_have_no_errors_and_memory_stays_flat() {
    holds("R2");
}

#[test]
fn r3_what_is_too_much_is_told_to_come_again_and_then_all_is_well() {
    holds("R3");
}

#[test]
fn r4_a_killed_child_costs_its_callers_one_error_each_and_nobody_else_anything() {
    holds("R4");
}

#[test]
fn r5_a_killed_http_server_costs_its_callers_one_error_each_and_is_used_again() {
    holds("R5");
}

#[test]
fn r5_streams_of_a_server_that_is_killed_or_cut_off_go_on_without_loss_or_repetition() {
    holds("R5-resume");
}

#[test]
fn r7_rolling_restarts_fail_no_request() {
    holds("R7");
}

#[test]
fn r11_clients_that_never_read_are_cut_off_and_nobody_else_notices() {
    holds("R11");
}

#[test]
fn r13_a_bad_network_loses_and_repeats_nothing() {
    holds("R13");
}

#[test]
fn r14_a_full_disk_under_the_log_stops_nothing() {
    holds("R14");
}

#[test]
fn r16_without_descriptors_those_inside_go_on_and_nothing_spins() {
    holds("R16");
}

#[test]
fn r17_malformed_input_is_answered_and_nothing_panics_hangs_or_grows() {
    holds("R17");
}

#[test]
fn r18_t45_what_comes_and_goes_gives_back_what_it_took_and_memory_does_not_grow() {
    holds("R18");
}

#[test]
fn r19_lists_results_and_reports_that_are_too_much_stay_within_bounds() {
    holds("R19");
}

#[test]
fn t5_reports_of_a_call_whose_client_is_gone_reach_nobody_else() {
    holds("T5");
}

#[test]
fn t24_five_thousand_slow_clients_hold_up_nobody_and_are_let_go() {
    holds("T24");
}

#[test]
fn nothing_is_left_of_clients_and_servers_that_die_at_random() {
    holds("hygiene");
}

/// With the packets dropped by `nft`, in a network that `ip` brings up.
mod peer_nftables {
    mod peer_iproute2 {
        #[test]
        fn r12_a_client_that_vanished_is_given_up_and_its_session_kept() {
            crate::holds("R12");
        }
    }
}

/// With the clock of `libfaketime`.
mod peer_faketime {
    #[test]
    fn r15_timeouts_come_in_time_when_the_clock_jumps() {
        crate::holds("R15");
    }
}

/// With the store of the peer `valkey`.
mod peer_valkey {
    use crate::holds;

    #[test]
    fn r6_a_killed_node_costs_nobody_more_than_what_was_under_way_on_it() {
        holds("R6");
    }

    #[test]
    fn r8_a_store_that_is_away_or_forgets_costs_nobody_a_session_silently() {
        holds("R8");
    }

    #[test]
    fn r10_a_full_store_refuses_what_is_new_and_throws_out_nothing() {
        holds("R10");
    }

    #[test]
    fn r20_everybody_who_comes_back_at_once_is_served_soon() {
        holds("R20");
    }

    /// One of them has the clock of `libfaketime`.
    mod peer_faketime {
        use crate::holds;

        #[test]
        fn three_nodes_behind_a_balancer_are_one_gateway_whatever_happens_to_them() {
            holds("THREE-NODES-batch");
        }

        #[test]
        fn three_nodes_that_write_every_event_lose_none_that_was_told() {
            holds("THREE-NODES-event");
        }
    }
}

/// Two hundred kills of a node with a file, at random moments: in parts, so that none takes too long.
mod kills {
    use crate::holds;

    #[test]
    fn a_node_that_is_killed_at_fifty_moments_loses_only_what_it_owns_up_to() {
        holds("KILLS-batch");
    }

    #[test]
    fn a_node_that_is_killed_at_fifty_other_moments_loses_only_what_it_owns_up_to() {
        holds("KILLS-batch");
    }

    #[test]
    fn a_node_that_writes_every_event_and_is_killed_at_fifty_moments_loses_nothing_acknowledged() {
        holds("KILLS-event");
    }

    #[test]
    fn a_node_that_writes_every_event_and_is_killed_at_fifty_other_moments_loses_nothing_acknowledged() {
        holds("KILLS-event");
    }
}
