//! Error codes of rejected messages and joins.

named_enum! {
    /// Why a message or a join is rejected.
    RejectionCode {
        InvalidMessage = "invalid_message",
        UnsupportedProtocol = "unsupported_protocol",
        KindMismatch = "kind_mismatch",
        ShortKind = "short_kind",
        MessageTooLarge = "message_too_large",
        Unauthorized = "unauthorized",
        AuthViolation = "auth_violation",
        CapabilityViolation = "capability_violation",
        Unavailable = "unavailable",
        RateLimited = "rate_limited",
        LimitExceeded = "limit_exceeded",
        RoomFull = "room_full",
        Kicked = "kicked",
        NotAMember = "not_a_member",
        AlreadyExists = "already_exists",
        InvalidOperation = "invalid_operation",
        DuplicateId = "duplicate_id",
        ParticipantNotFound = "participant_not_found",
        ParticipantPaused = "participant_paused",
        ParticipantShutDown = "participant_shut_down",
        UnknownGrant = "unknown_grant",
        UnknownRequest = "unknown_request",
        NotAddressee = "not_addressee",
        AlreadyResponded = "already_responded",
        UnknownProposal = "unknown_proposal",
        ProposalClosed = "proposal_closed",
        ProposalMismatch = "proposal_mismatch",
        OwnProposal = "own_proposal",
        NotProposer = "not_proposer",
        StreamNotFound = "stream_not_found",
        TargetNotFound = "target_not_found",
        UnauthorizedStreamWrite = "unauthorized_stream_write",
    }
}
