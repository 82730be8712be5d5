//! What attackers try, through the binary: each test does what one threat would and shows that it comes to nothing.

mod children;
mod crowd;
mod doors;
mod floods;
mod reach;
mod secrets;
mod words;
mod world;
