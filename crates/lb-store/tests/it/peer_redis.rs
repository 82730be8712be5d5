//! The store on an older server: Redis 7.0.

use crate::{servers, suite};

servers::fixture!(Redis);
suite::conformance!(Redis, 5);
