"""Settings of a master. Salt's key names where the meaning is the same."""

from __future__ import annotations

from typing import Any, Dict, List

from catena.core.config.minion import PORT, STATE_OUTPUTS
from catena.core.config.schema import option
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class MasterSettings:
    """`/etc/catena/master` and `master.d/*.conf`."""

    interface: str = option("0.0.0.0", "Address to listen on.")
    port: int = option(PORT, "Control port; bulk is +1, enrol is +2.", low=1, high=65533)
    root_dir: str = option("", "Prefix of every folder without a setting of its own.")
    cache_dir: str = option("/var/cache/catena/master", "Rendered files and partial uploads.")
    state_dir: str = option("/var/lib/catena/master", "Database and files of chunks.")
    pki_dir: str = option("/etc/catena/pki/master", "The master's keys.")
    run_dir: str = option("/run/catena/master", "Socket for the catena command.")
    database: str = option("", "SQLAlchemy URL. Empty: SQLite in state_dir.")
    log_file: str = option("/var/log/catena/master", "Log file; - for stderr.")
    log_level: str = option(
        "info", "Least severe level that is logged.", choices=("error", "warning", "info", "debug")
    )
    user: str = option("root", "User that the daemon runs as.")
    file_roots: Dict[str, List[str]] = option(
        {"base": ["/srv/salt"]}, "File roots by environment."
    )
    pillar_roots: Dict[str, List[str]] = option(
        {"base": ["/srv/pillar"]}, "Pillar roots by environment."
    )
    fileserver_followsymlinks: bool = option(False, "Follow links inside the file roots.")
    file_ignore_glob: List[str] = option([], "Files that are not served.")
    file_ignore_regex: List[str] = option([], "Files that are not served.")
    nodegroups: Dict[str, Any] = option({}, "Named targets.")
    roster_file: str = option(
        "", "Hosts of `catena ssh`. Empty: the file roster beside the configuration."
    )
    roster_defaults: Dict[str, Any] = option({}, "Default settings of every host in the roster.")
    ssh_config_file: str = option(
        "", "SSH configuration to use instead of ~/.ssh/config and /etc/ssh/ssh_config."
    )
    ssh_known_hosts_file: str = option("", "Trusted host keys. Empty: ssh_known_hosts in pki_dir.")
    ssh_user: str = option(
        "", "User of SSH logins. Empty: as in the SSH configuration, else the local user."
    )
    ssh_port: int = option(
        0, "Port of SSH; 0: as in the SSH configuration, else 22.", low=0, high=65535
    )
    ssh_priv: str = option("", "Private key for SSH. Empty: the user's keys and SSH agent.")
    ssh_sudo: bool = option(False, "Use sudo to run commands over SSH as root.")
    ssh_timeout: int = option(
        60, "Seconds to connect to a host over SSH and log in.", low=1, high=3600
    )
    ssh_max_procs: int = option(
        25, "Maximum number of hosts that one `catena ssh` works on at a time.", low=1, high=1000
    )
    ssh_visits: int = option(
        10,
        "Maximum number of SSH hosts that chains and jobs visit at a time, a process each.",
        low=1,
        high=1000,
    )
    ssh_reboot_minutes: float = option(
        4.0,
        "Minutes after a chain's reboot at which the master looks at an SSH host.",
        low=0.01,
        high=1440,
    )
    ssh_minion_opts: Dict[str, Any] = option({}, "Minion configuration of every SSH host.")
    renderer: str = option("jinja|yaml", "Renderers of pillar files without a #! line.")
    gpg_keydir: str = option(
        "", "Key ring of the gpg renderer. Empty: gpgkeys beside the configuration."
    )
    renderer_whitelist: List[str] = option(
        [], "Renderers that pillar and reactor files may use; []: all."
    )
    renderer_blacklist: List[str] = option(
        [], "Renderers that pillar and reactor files may not use."
    )
    jinja_env: Dict[str, Any] = option(
        {},
        "Jinja options for the master's other templates, such as trim_blocks.",
    )
    jinja_sls_env: Dict[str, Any] = option({}, "Jinja options for pillar and reactor files.")
    jinja_trim_blocks: bool = option(False, "Jinja removes the line end after every block tag.")
    jinja_lstrip_blocks: bool = option(False, "Jinja removes the blanks before every block tag.")
    pillar_source_merging_strategy: str = option(
        "smart",
        "How pillar files are merged.",
        choices=("smart", "recurse", "aggregate", "overwrite", "none", "list"),
    )
    env_order: List[str] = option([], "Environments in the order in which their pillar is merged.")
    pillar_includes_override_sls: bool = option(
        False, "Included pillar files take precedence over the including file's values."
    )
    pillar_merge_lists: bool = option(
        False, "Append lists of pillar files instead of replacing them."
    )
    pillar_timeout_seconds: int = option(
        30, "Seconds after which compiling a pillar fails.", low=1, high=3600
    )
    worker_processes: int = option(
        2, "Processes that compile pillar and render chunks.", low=1, high=256
    )
    auto_accept: bool = option(
        False, "Accept every key unseen. Anyone who can reach the port can then become a minion."
    )
    reactor: List[Dict[str, Any]] = option(
        [], "Event tag globs, with the SLS files that react to them."
    )
    reactor_defaults: bool = option(True, "Resume the chains of a minion when it starts.")
    job_expiry_hours: int = option(
        24, "Hours after which a job that a minion has not received is dropped.", low=1, high=8760
    )
    keep_jobs_hours: int = option(
        24 * 7, "Hours for which ended jobs are kept.", low=1, high=87600
    )
    keep_events_hours: int = option(24 * 7, "Hours for which events are kept.", low=1, high=87600)
    keep_chains_hours: int = option(
        0, "Hours for which archived chains are kept; 0: for ever.", low=0, high=876000
    )
    keep_store_mib: int = option(
        0,
        "MiB of the SQLite database above which the oldest jobs, events and archived chains are "
        "deleted earlier; 0: unlimited.",
        low=0,
        high=16 * 1024 * 1024,
    )
    chain_retention: str = option(
        "done",
        "When a chain is archived and leaves the list.",
        choices=("dispatch", "done", "forever"),
    )
    chain_archive_hours: int = option(
        24 * 7, "Hours after which a completed chain is archived.", low=0, high=87600
    )
    chain_late_hours: int = option(
        24, "Hours after its due time at which a chain is rejected.", low=1, high=8760
    )
    chain_boundary_minutes: int = option(
        30,
        "Minutes after which a chain's missing reboot or new agent counts as failed.",
        low=1,
        high=1440,
    )
    chain_clean_wait_minutes: int = option(
        60,
        "Minutes for which the start of a chain waits where a minion can't remove an ended chain.",
        low=0,
        high=1440,
    )
    agent_packages: List[str] = option(
        ["catena", "catena-minion"], "Packages whose upgrade ends a chunk."
    )
    clock_agreement_minutes: int = option(
        5,
        "Minutes by which wall clock and boot clock may diverge before a due chain waits.",
        low=1,
        high=1440,
    )
    ping_interval_seconds: int = option(
        15, "Seconds between the expected heartbeats of minions.", low=1, high=600
    )
    state_output: str = option(
        "full",
        "How `catena` shows states: a block each, a line (terse), blocks for failures (mixed) or "
        "changes. With _id a line shows the state's id.",
        choices=STATE_OUTPUTS,
    )
    state_verbose: bool = option(True, "Show states that succeeded without changes.")
    testing: bool = option(False, "Let the environment arm failpoints; for tests only.")
    cli_users: List[str] = option(
        [], "Users who may use the catena command here, in addition to root and the master's user."
    )
    cli_group: str = option("catena", "Local group whose members are the users of `cli_users`.")
    peer_budget_kib: int = option(
        4096,
        "KiB that one minion may have sent and the master not yet processed.",
        low=256,
        high=1048576,
    )
    return_limit_mib: int = option(
        64, "Maximum size in MiB of a job's return from one minion.", low=1, high=1024
    )
    events_per_second: int = option(
        1000,
        "Events per second that one minion may send. Agents comply; excess ones are dropped and "
        "counted.",
        low=1,
        high=100000,
    )
    peer: Dict[str, Any] = option(
        {},
        "Minions (patterns of ids) that may run functions (patterns) on other minions by "
        "publish.publish. Nobody may by default.",
    )
    peer_run: Dict[str, Any] = option(
        {}, "Minions (patterns of ids) that may call runners (patterns) by saltutil.runner."
    )
    peer_wheel: Dict[str, Any] = option(
        {},
        "Minions (patterns of ids) that may call wheel functions (patterns) by saltutil.wheel: "
        "they decide about keys.",
    )
    file_recv: bool = option(False, "Accept files that minions send by cp.push.")
    file_recv_max_size: int = option(
        100, "Maximum size in MiB of a file that a minion sends.", low=1, high=102400
    )
    file_recv_minion_mib: int = option(
        1024, "Maximum size in MiB of all files that one minion has sent.", low=1, high=1048576
    )
    job_output_kib: int = option(
        1024,
        "KiB stored of one running job's output on one minion, beside its return; each stored "
        "part counts 128 bytes more. 0: running jobs send no output.",
        low=0,
        high=65536,
    )
    job_output_per_second_kib: int = option(
        64,
        "KiB per second of running jobs' output that one minion may send; each part counts 128 "
        "bytes more. Agents comply; excess output is dropped and shown as missing.",
        low=1,
        high=10240,
    )


#: Salt's master keys that mean nothing here; accepted and listed once.
SALT_KEYS = frozenset(
    """allow_minion_key_revoke auth_mode auto_accept_minions autosign_file autosign_grains_dir
    autosign_timeout cachedir cli_summary client_acl_verify color con_cache conf_file
    cython_enable decrypt_pillar default_include default_top drop_messages_signature_fail
    eauth_acl_module enable_gpu_grains enable_ssh_minions enforce_mine_cache event_match_type
    event_publisher_niceness event_return event_return_blacklist event_return_queue
    event_return_whitelist ext_job_cache ext_pillar_first extension_modules
    external_auth failhard file_buffer_size fileserver_backend
    fileserver_events fileserver_limit_traversal fileserver_verify_config fips_mode
    gather_job_timeout git_pillar_base git_pillar_provider gitfs_base gitfs_branch
    gitfs_env_whitelist gitfs_global_lock gitfs_provider gitfs_remotes gitfs_root gitfs_saltenv
    hash_type include ipc_mode ipc_write_buffer ipv6 job_cache keep_jobs keep_jobs_seconds
    key_cache key_logfile keysize local lock_saltenv log_datefmt log_fmt_console
    log_fmt_logfile log_granular_levels log_level_logfile loop_interval master_id
    master_job_cache master_roots master_sign_key_name master_sign_pubkey
    max_event_size max_minions max_open_files memcache_expire_seconds minion_data_cache
    minionfs_env module_dirs netapi_enable_clients no_proxy on_demand_ext_pillar open_mode
    order_masters outputter_dirs permissive_pki_access pidfile pillar_cache
    pillar_cache_backend pillar_cache_ttl pillar_opts pillar_safe_render_error ping_on_rotate
    presence_events preserve_minion_cache pub_hwm publish_port publish_session publisher_acl
    publisher_acl_blacklist reactor_niceness reactor_refresh_interval reactor_worker_hwm
    reactor_worker_threads req_server req_server_niceness rest_cherrypy rest_tornado ret_port
    returner roster rotate_aes_key runner_dirs runner_returns runners_dirs salt_event_pub_hwm
    schedule show_jid show_timeout sign_pub_messages sock_dir sock_pool_size sqlite_queue_dir
    ssh_log_file ssh_passwd ssh_scan_ports ssh_use_home_key state_aggregate state_auto_order
    state_events state_output_diff state_output_pct state_output_profile state_tabular state_top
    state_top_saltenv sudo_acl svnfs_remotes syndic_dir syndic_master syndic_user
    syndic_wait tcp_keepalive tcp_keepalive_cnt tcp_keepalive_idle tcp_keepalive_intvl
    tcp_master_pub_port test thin_extra_mods timeout token_dir token_expire
    top_file_merging_strategy transport user_uid utils_dirs verify_env winrepo_dir
    worker_threads worker_threads_pool yaml_utf8 zmq_backlog zmq_monitor""".split()
)
