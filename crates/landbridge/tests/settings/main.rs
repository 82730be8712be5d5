//! Settings, logs and reloads, as an operator meets them.

mod logs;
mod places;
mod reload;
mod secrets;
mod stop;
mod told;
mod world;
