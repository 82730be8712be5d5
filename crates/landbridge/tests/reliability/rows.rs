//! One test per scenario.

use crate::holds;

#[test]
fn r4_a_killed_child_costs_its_callers_one_error_each_and_nobody_else_anything() {
    holds("R4");
}

#[test]
fn nothing_is_left_of_clients_and_servers_that_die_at_random() {
    holds("hygiene");
}
