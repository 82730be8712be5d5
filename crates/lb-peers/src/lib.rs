//! lb-peers
