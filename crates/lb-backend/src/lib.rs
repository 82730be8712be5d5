//! lb-backend
