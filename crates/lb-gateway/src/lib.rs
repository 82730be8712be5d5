//! lb-gateway
