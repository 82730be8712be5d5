//! lb-testkit
