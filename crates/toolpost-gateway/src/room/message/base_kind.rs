//! The kinds that the gateway interprets.

named_enum! {
    /// A kind without METHOD and CONTEXT that the gateway interprets. Participants can also use
    /// other kinds.
    BaseKind {
        Mcp = "mcp",
        McpRequest = "mcp/request",
        McpResponse = "mcp/response",
        McpProposal = "mcp/proposal",
        McpNotification = "mcp/notification",
        McpReject = "mcp/reject",
        McpWithdraw = "mcp/withdraw",
        Chat = "chat",
        ChatAcknowledge = "chat/acknowledge",
        ChatCancel = "chat/cancel",
        ReasoningCancel = "reasoning/cancel",
        CapabilityGrant = "capability/grant",
        CapabilityGrantAck = "capability/grant-ack",
        CapabilityRevoke = "capability/revoke",
        SpaceInvite = "space/invite",
        SpaceInviteAck = "space/invite-ack",
        SpaceKick = "space/kick",
        StreamRequest = "stream/request",
        StreamOpen = "stream/open",
        StreamClose = "stream/close",
        StreamData = "stream/data",
        StreamActive = "stream/active",
        StreamGrantWrite = "stream/grant-write",
        StreamRevokeWrite = "stream/revoke-write",
        StreamTransferOwnership = "stream/transfer-ownership",
        StreamWriteGranted = "stream/write-granted",
        StreamWriteRevoked = "stream/write-revoked",
        StreamOwnershipTransferred = "stream/ownership-transferred",
        ParticipantPause = "participant/pause",
        ParticipantResume = "participant/resume",
        ParticipantRestart = "participant/restart",
        ParticipantShutdown = "participant/shutdown",
        ParticipantForget = "participant/forget",
        ParticipantCompact = "participant/compact",
        ParticipantCompactDone = "participant/compact-done",
        ParticipantClear = "participant/clear",
        ParticipantStatus = "participant/status",
        ParticipantRequestStatus = "participant/request-status",
        SystemWelcome = "system/welcome",
        SystemPresence = "system/presence",
        SystemError = "system/error",
        SystemProposal = "system/proposal",
        SystemNotice = "system/notice",
        SystemJoin = "system/join",
        SystemHeartbeat = "system/heartbeat",
        SystemPong = "system/pong",
    }
}

impl BaseKind {
    /// Whether the kind carries a METHOD and CONTEXT.
    pub fn is_extended(self) -> bool {
        matches!(
            self,
            Self::McpRequest | Self::McpResponse | Self::McpProposal | Self::McpNotification
        )
    }

    /// Whether a paused or shut down participant can still send the kind.
    pub(crate) fn is_allowed_while_paused(self) -> bool {
        matches!(
            self,
            Self::McpResponse
                | Self::ParticipantStatus
                | Self::ParticipantResume
                | Self::ParticipantRequestStatus
                | Self::ParticipantClear
                | Self::ParticipantForget
                | Self::ParticipantCompactDone
                | Self::ParticipantShutdown
                | Self::ChatAcknowledge
                | Self::ChatCancel
                | Self::ReasoningCancel
                | Self::StreamClose
        )
    }

    /// Whether the kind requires an addressee. Without one, every client would obey, including the
    /// sender's.
    pub(crate) fn requires_addressee(self) -> bool {
        matches!(
            self,
            Self::ParticipantPause
                | Self::ParticipantResume
                | Self::ParticipantForget
                | Self::ParticipantCompact
                | Self::ParticipantClear
                | Self::ParticipantRestart
                | Self::ParticipantShutdown
        )
    }

    /// Whether only the gateway sends the kind, in addition to `system/…`.
    pub(crate) fn is_reserved(self) -> bool {
        matches!(
            self,
            Self::StreamOpen
                | Self::StreamData
                | Self::StreamActive
                | Self::StreamWriteGranted
                | Self::StreamWriteRevoked
                | Self::StreamOwnershipTransferred
                | Self::SpaceInviteAck
        )
    }
}
