//! lb-process
