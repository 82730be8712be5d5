//! lb-exchange
