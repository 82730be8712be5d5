//! lb-wire
