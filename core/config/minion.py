"""Settings of a minion. Salt's key names where the meaning is the same."""

from __future__ import annotations

from typing import Any, Dict, List, Union

from catena.core.clock import BOOT_ID_FILE
from catena.core.config.schema import option
from catena.core.frozen import dataclass

PORT = 4605
#: Salt's values of `state_output`.
STATE_OUTPUTS = (
    "changes", "changes_id", "filter", "filter_id", "full", "full_id", "mixed", "mixed_id",
    "terse", "terse_id",
)  # fmt: skip


@dataclass(frozen=True)
class MinionSettings:
    """`/etc/catena/minion` and `minion.d/*.conf`."""

    id: str = option("", "Name of this minion. Empty: the host's FQDN.")
    machine_id: str = option("", "Identity of this host. Empty: that of /etc/machine-id.")
    master: str = option(
        "", "Address of the master. Empty: no master, only `catena call --local`."
    )
    master_port: int = option(
        PORT, "Control port of the master; bulk is +1, enrol is +2.", low=1, high=65533
    )
    master_finger: str = option(
        "",
        "SHA-256 fingerprint that the master's key must have. "
        "Empty: the first key seen is trusted and stored.",
        grammar="(?i)[0-9a-f]{2}(:?[0-9a-f]{2}){31}",
        form="a fingerprint: 64 hexadecimal digits, as `catena key finger` prints them",
    )
    enrol_token: str = option(
        "", "One-time token with which the master accepts this minion's key at once."
    )
    root_dir: str = option("", "Prefix of every folder without a setting of its own.")
    cache_dir: str = option("/var/cache/catena/minion", "Files, journal, outbox, custom modules.")
    pki_dir: str = option("/etc/catena/pki/minion", "Keys of this minion and the master's.")
    run_dir: str = option("/run/catena/minion", "Socket for `catena call` and running jobs.")
    log_file: str = option("/var/log/catena/minion", "Log file; - for stderr.")
    log_level: str = option(
        "info", "Least severe level that is logged.", choices=("error", "warning", "info", "debug")
    )
    user: str = option("root", "User that the daemon runs as.")
    file_client: str = option(
        "remote",
        "Files and pillar from the master or from local roots.",
        choices=("remote", "local"),
    )
    file_roots: Dict[str, List[str]] = option({}, "Local file roots by environment.")
    pillar_roots: Dict[str, List[str]] = option({}, "Local pillar roots by environment.")
    mine_functions: Dict[str, Any] = option(
        {}, "Functions whose values this minion sends to the mine, with their arguments."
    )
    nodegroups: Dict[str, Any] = option({}, "Named targets, for local highstates.")
    grains: Dict[str, Any] = option({}, "Static grains; they take precedence over collected ones.")
    saltenv: str = option("", "Environment of state runs. Empty: base.")
    lock_saltenv: bool = option(
        False, "State runs cannot select an environment other than saltenv."
    )
    pillarenv: str = option("", "Environment of the pillar. Empty: all.")
    pillarenv_from_saltenv: bool = option(
        False, "Use the environment of a state run for its pillar too."
    )
    state_top: str = option("top.sls", "Name of the top file.")
    state_top_saltenv: str = option("", "Environment of the only top file to read. Empty: all.")
    default_top: str = option(
        "base", "With `same`: environment whose top file is used for environments without one."
    )
    env_order: List[str] = option(
        [], "Environments in the order in which their states run and their pillar is merged."
    )
    top_file_merging_strategy: str = option(
        "merge",
        "How the top files of environments are merged.",
        choices=("merge", "same", "merge_all"),
    )
    pillar_source_merging_strategy: str = option(
        "smart",
        "How pillar files are merged.",
        choices=("smart", "recurse", "aggregate", "overwrite", "none", "list"),
    )
    pillar_merge_lists: bool = option(
        False, "Append lists of pillar files instead of replacing them."
    )
    pillar_includes_override_sls: bool = option(
        False, "Included pillar files take precedence over the including file's values."
    )
    pillar_mask_output: bool = option(True, "Hide pillar values that functions print.")
    renderer: str = option("jinja|yaml", "Renderers of SLS files without a #! line.")
    gpg_keydir: str = option(
        "", "Key ring of the gpg renderer. Empty: gpgkeys beside the configuration."
    )
    renderer_whitelist: List[str] = option([], "Renderers that files may use; []: all.")
    renderer_blacklist: List[str] = option([], "Renderers that files may not use.")
    jinja_env: Dict[str, Any] = option(
        {}, "Jinja options for managed files, such as trim_blocks and lstrip_blocks."
    )
    jinja_sls_env: Dict[str, Any] = option({}, "Jinja options for SLS files.")
    jinja_trim_blocks: bool = option(False, "Jinja removes the line end after every block tag.")
    jinja_lstrip_blocks: bool = option(False, "Jinja removes the blanks before every block tag.")
    test: bool = option(False, "Run every state in test mode.")
    failhard: bool = option(False, "Stop a state run at its first failure.")
    state_aggregate: Union[bool, List[str]] = option(
        False, "Modules whose states are combined into one (packages); true: all that support it."
    )
    state_max_parallel: int = option(
        0, "Maximum number of parallel states of a run; 0: unlimited.", low=0, high=1000
    )
    boot_id_file: str = option(BOOT_ID_FILE, "File that contains the id of the running boot.")
    job_tasks_max: int = option(
        0,
        "Maximum number of processes of one job, under systemd; 0: systemd's own limit.",
        high=4194304,
    )
    state_output: str = option(
        "full",
        "How `catena` shows states: a block each, a line (terse), blocks for failures (mixed) or "
        "changes. With _id a line shows the state's id.",
        choices=STATE_OUTPUTS,
    )
    state_verbose: bool = option(True, "Show states that succeeded without changes.")
    testing: bool = option(False, "Let the environment arm failpoints; for tests only.")
    reboot_command: List[str] = option([], "Command that reboots this host; []: detected.")
    reboot_deadline_minutes: int = option(
        15,
        "Minutes after which a reboot that has not happened counts as failed.",
        low=1,
        high=1440,
    )
    resume: str = option(
        "reactor",
        "Who continues a chain after a reboot: the master's reactor, "
        "or this minion by itself after resume_after_seconds.",
        choices=("reactor", "local"),
    )
    resume_after_seconds: int = option(
        300,
        "With `resume: local`, seconds for which the minion first waits for the master.",
        low=0,
        high=86400,
    )
    template_idle_minutes: int = option(
        10,
        "Minutes without jobs after which the warm job template process exits.",
        low=0,
        high=1440,
    )
    ping_interval_seconds: int = option(
        15, "Seconds between heartbeats to the master.", low=1, high=600
    )
    recon_max_seconds: int = option(
        60, "Maximum seconds between connection attempts.", low=1, high=3600
    )
    agent_dir: str = option("/opt/catena", "Folder with the installed versions of the agent.")
    startup_states: str = option(
        "",
        "State run at the agent's start: highstate, sls or top.",
        choices=("", "highstate", "sls", "top"),
    )
    sls_list: List[str] = option([], "SLS files of startup_states: sls.")

    def effective_pillarenv(self) -> str:
        """Return the environment of the pillar; "" for all."""
        return self.pillarenv or (self.saltenv if self.pillarenv_from_saltenv else "")


#: Salt's minion keys that mean nothing here; accepted and listed once.
SALT_KEYS = frozenset(
    """acceptance_wait_time acceptance_wait_time_max always_verify_signature auth_safemode
    auth_timeout auth_tries autoload_dynamic_modules autosign_grains backup_mode beacons
    beacons_before_connect cache_jobs cache_sreqs cachedir clean_dynamic_modules
    cmd_blacklist_glob cmd_safe cmd_whitelist_glob color conf_file cython_enable decrypt_pillar
    default_include disable_grains disable_modules disable_returners disabled_requisites
    enable_fqdns_grains enable_gpu_grains enable_legacy_startup_events event_match_type
    extension_modules file_buffer_size fileserver_backend fileserver_limit_traversal fips_mode
    gather_job_timeout grains_cache grains_cache_expiration grains_deep_merge
    grains_refresh_every hash_type include interface ipc_mode ipv6 keysize
    log_datefmt log_fmt_console log_fmt_logfile log_granular_levels log_level_logfile
    loop_interval master_alive_interval master_failback master_shuffle master_sign_key_name
    master_tries master_type max_event_size metadata_server_grains mine_enabled mine_interval
    mine_return_job minion_id_caching minion_id_lowercase minion_pillar_cache
    minion_sign_messages module_dirs module_executors multiprocessing outputter_dirs
    permissive_pki_access pidfile pillar_cache pillar_raise_on_missing ping_interval
    ping_on_rotate process_count_max proxy_host pub_ret publish_port random_master
    random_reauth_delay random_startup_delay recon_default recon_max recon_randomize
    regex_cache_size rejected_retry render_dirs req_server retry_dns retry_dns_count
    return_retry_timer return_retry_timer_max return_retry_tries returner returner_dirs
    root_dir_mode schedule snapper_states sock_dir sock_pool_size source_address
    source_interface_name source_ret_port ssh_merge_pillar start_event_grains
    startup_states_timeout state_auto_order state_events
    state_output_diff state_output_pct state_output_profile state_tabular states_dirs
    strip_colors sudo_user sync_grains syndic_finger tcp_keepalive tcp_keepalive_cnt
    tcp_keepalive_idle
    tcp_keepalive_intvl tcp_pub_port tcp_pull_port timeout top_file transport unique_jid
    use_master_when_local use_superseded use_yamlloader_old user_info utils_dirs verify_env
    verify_master_pubkey_sign wait_for_dns winrepo_dir zmq_filtering zmq_monitor""".split()
)
