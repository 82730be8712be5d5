//! The front through its public face, against a scripted middle and a paused clock.

mod allowed;
mod asks;
mod batch;
mod connection;
mod deadlines;
mod desk;
mod kept;
mod legacy;
mod modern;
mod resume;
mod route;
