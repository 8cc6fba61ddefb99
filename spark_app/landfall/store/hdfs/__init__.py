"""The store in a folder of HDFS."""
