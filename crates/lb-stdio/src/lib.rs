//! lb-stdio
