// Shell function bodies that print the names of the instances on this machine, for completion scripts.

export const INSTANCE_COMPLETION = {
  posix: `  local dir
  for dir in "\${SVC_DATA_DIR:-\${PREFIX:-/srv}/data}"/svc_*/; do
    dir=\${dir%/}
    [[ -d $dir ]] && printf '%s\n' "\${dir##*/svc_}"
  done 2>/dev/null`,
  fish: `  set -l root $SVC_DATA_DIR
  test -n "$root"; or set root (test -n "$PREFIX"; and echo $PREFIX; or echo /srv)/data
  for dir in $root/svc_*/
    string replace -r '.*/svc_(.*)/$' '$1' -- $dir
  end`,
}
