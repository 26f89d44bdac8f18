# SPDX-License-Identifier: Apache-2.0
"""Zip archives, read strictly and written deterministically; for every format that is one."""

from .content import MemberContent
from .decoders import Decoder, inflater, unzstd
from .reader import Member, check_names, read_directory
from .writer import METHODS, MemberRecord, ZipWriter

__all__ = [
    "METHODS",
    "Decoder",
    "Member",
    "MemberContent",
    "MemberRecord",
    "ZipWriter",
    "check_names",
    "inflater",
    "read_directory",
    "unzstd",
]
