//! lb-front
