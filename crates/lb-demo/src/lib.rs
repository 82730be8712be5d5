//! lb-demo
