//! lb-http
