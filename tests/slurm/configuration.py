"""Configuration files of the test cluster's daemons, with their places left open."""

SLURM_CONF = """\
ClusterName=lab
SlurmctldHost={hostname}(127.0.0.1)
SlurmctldPort={slurmctld_port}
SlurmUser=root
SlurmdUser=root
FirstJobId={first_job_id}
StateSaveLocation={run_dir}/slurmctld
SlurmdSpoolDir={run_dir}/slurmd-%n
SlurmctldPidFile={run_dir}/slurmctld.pid
SlurmdPidFile={run_dir}/slurmd-%n.pid
SlurmctldLogFile={run_dir}/slurmctld.log
SlurmdLogFile={run_dir}/slurmd-%n.log
AuthType=auth/munge
# cred_expire is also the delay before a requeued job starts again, 120 s by default.
AuthInfo=socket={run_dir}/munge.sock,cred_expire=10
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
# No job may send mail.
MailProg=/bin/true
# Without config_overrides a node with fewer real CPUs than configured becomes INVAL.
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=15
KillWait=2
# As some sites have them: a task that ends ends the others of its step.
KillOnBadExit=1
WaitTime=5
MaxArraySize={max_array_size}
# A job that is over is forgotten soon, as on a busy cluster; 300 s by default.
MinJobAge=10
EnforcePartLimits=ALL
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
GresTypes=gpu
{node_lines}
PartitionName=main Nodes=ALL Default=YES PriorityTier=1 GraceTime=20
PartitionName=high Nodes=ALL PriorityTier=10
PartitionName=short Nodes=ALL PriorityTier=1 DefaultTime=2 MaxTime=2 GraceTime=20
PartitionName=closed Nodes=ALL State=DOWN
"""

# Any character device will do; the numbers in their names become CUDA_VISIBLE_DEVICES.
GRES_CONF = "{gres_lines}\n"
