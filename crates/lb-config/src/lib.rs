//! lb-config
