//! Certificates and keys in files.
