//! Bad input against a running gateway: nothing panics, hangs or grows, every request is answered, and the next good
//! one works.

mod bodies;
mod cut;
mod lines;
mod near_http;
mod tcp;
mod world;
