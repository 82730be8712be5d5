//! lb-session
