//! Real processes through the public face of the crate. The probe binary is program and supervisor at once.
#![cfg(target_os = "linux")]

mod kit;

mod inherit;
mod life;
mod orphans;
mod stop;
