// Helm, built from its published module alone, to test our chart.
module volcano.test/helm

go 1.26

tool helm.sh/helm/v4/cmd/helm

require helm.sh/helm/v4 v4.2.4
