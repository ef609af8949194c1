//! The commands of users and admins.
